"""Bench of `tile`: steps of random length from reset; a position loaded; steps from there."""

from ..bench import full_speed, reset_midway, stalled

__all__ = ["full_speed", "reset_midway", "stalled"]
