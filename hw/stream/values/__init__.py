"""RTL of functions of values and rows behind the array."""
