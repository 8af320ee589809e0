"""RTL of parts of `pool_head`: means of tokens, and rows divided by their L2 norm."""
