"""Bench of `conv`: parameters, one sample, several at once; other parameters, several samples."""

from ..bench import full_speed, reset_midway, stalled

__all__ = ["full_speed", "reset_midway", "stalled"]
