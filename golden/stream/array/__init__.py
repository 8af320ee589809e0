"""Models of the multiplier array: tile loading, products and partial sums."""
