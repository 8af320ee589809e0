"""Self-tests: a small job of a core whose results are known, as data for the host driver and for a C program."""
