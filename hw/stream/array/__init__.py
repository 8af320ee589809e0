"""RTL of the multiplier array, its stationary operands and partial sums."""
