"""Bench of `urng`: from reset; a far state loaded while the old one is read back; numbers from there."""

from ..bench import full_speed, reset_midway, stalled

__all__ = ["full_speed", "reset_midway", "stalled"]
