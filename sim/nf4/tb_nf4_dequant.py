"""Bench of `nf4_dequant`: all codes with scales of all sizes, many of whose products are ties; then a second job."""

from ..bench import full_speed, reset_midway, stalled

__all__ = ["full_speed", "reset_midway", "stalled"]
