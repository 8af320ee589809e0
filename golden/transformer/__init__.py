"""Normal form of transformers, in floats."""
