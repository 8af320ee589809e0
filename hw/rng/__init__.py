"""Random number generators in RTL."""
