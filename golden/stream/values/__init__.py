"""Models of the functions of values and rows after the array."""
