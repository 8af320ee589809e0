"""RTL of `pool_head` submodules: means of tokens, and division of rows by their L2 norm."""
