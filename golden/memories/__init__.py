"""Memories on the chip: kinds of RAM, and the plan that gives each memory of a block its kind."""
