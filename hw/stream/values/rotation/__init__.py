"""RTL of parts of `rotary`: the walk over heads, and their rotation."""
