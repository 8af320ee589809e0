"""Stimulus and benches of programs of the streaming core."""
