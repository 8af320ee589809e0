"""Bench of `celoss`: samples of 1 to 256 words, labels inside and beyond them; then a second job."""

from ..bench import full_speed, reset_midway, stalled

__all__ = ["full_speed", "reset_midway", "stalled"]
