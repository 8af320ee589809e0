"""RTL of weights for both perturbation signs, from the weight stream."""
