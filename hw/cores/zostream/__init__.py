"""RTL of `zostream`."""
