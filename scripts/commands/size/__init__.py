"""Commands on size, time and power."""
