"""Specs of the engine's blocks, sized by the core."""
