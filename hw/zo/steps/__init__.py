"""Steps of zeroth-order training: sample schedule, labels, projected gradients, records, updates."""
