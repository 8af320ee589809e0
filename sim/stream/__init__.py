"""Stimulus and benches of the streaming core's parts."""
