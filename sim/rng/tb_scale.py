"""Bench of `scale`: factors from reset; a far state loaded while the old one is read back; factors from there."""

from ..bench import full_speed, reset_midway, stalled

__all__ = ["full_speed", "reset_midway", "stalled"]
