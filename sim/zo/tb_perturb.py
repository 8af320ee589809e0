"""Bench of `perturb`: random words with the ends of each range far too often, then a second job without a reset."""

from ..bench import full_speed, reset_midway, stalled

__all__ = ["full_speed", "reset_midway", "stalled"]
