"""RTL of the engine that runs programs, on the blocks of all other rooms."""
