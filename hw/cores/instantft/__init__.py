"""RTL of `instantft`."""
