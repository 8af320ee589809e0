"""Bench of `mac`: sums of all lengths, some dropped, some continued; the largest ones, and ties; then a second job."""

from ..bench import full_speed, reset_midway, stalled

__all__ = ["full_speed", "reset_midway", "stalled"]
