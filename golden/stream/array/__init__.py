"""Models of the array of multipliers, what is stationary in it, and its sums."""
