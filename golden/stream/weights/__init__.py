"""Models of the path from the weight stream to the weights of both sides of a step."""
