"""Tables of one core alone, a package for each core."""
