"""Stimulus and benches of weights of both sides of a step, from the stream of codes."""
