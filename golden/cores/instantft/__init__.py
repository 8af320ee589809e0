"""InstantFT: spec, registers and golden model."""
