"""Bench of `weight_path`: packets of either sign and none, corrections right and wrong, then a second job."""

from ..bench import full_speed, reset_midway, stalled

__all__ = ["full_speed", "reset_midway", "stalled"]
