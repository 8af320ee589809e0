"""Memories of the forward engine: activations, parameters, outputs of stages, outputs in front of a cut."""
