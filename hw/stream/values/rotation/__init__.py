"""RTL of `rotary` submodules: chunk addresses of heads, and their rotation."""
