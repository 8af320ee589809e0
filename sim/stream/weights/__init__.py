"""Benches and rules of the weight path: from the code stream to the weights of both perturbation signs."""
