"""Resource and timing estimates by open synthesis."""
