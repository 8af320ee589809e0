"""Core that streams transformers, as data: its size, the schedule, program and stream of a network, and their cost."""
