"""Stimulus and benches of weights of attention and the contexts."""
