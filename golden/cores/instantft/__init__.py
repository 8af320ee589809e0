"""InstantFT: spec and registers."""
