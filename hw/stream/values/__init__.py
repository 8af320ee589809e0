"""RTL of element-wise functions, row functions and the value path after the array."""
