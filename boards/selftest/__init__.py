"""Self-tests: a small job of a core with known results, as data for the host driver and for C programs."""
