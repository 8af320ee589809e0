"""Bench of `pool`: rows with replays and marks from reset; an address loaded, the old one read; more from there."""

from ..bench import full_speed, reset_midway, stalled

__all__ = ["full_speed", "reset_midway", "stalled"]
