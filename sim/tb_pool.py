"""Bench."""

from .bench import full_speed, reset_midway, stalled

__all__ = ["full_speed", "reset_midway", "stalled"]
