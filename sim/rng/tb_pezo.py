"""Bench of `pezo`: words from reset; a mark; replays; a position loaded, the old state read; replays from there."""

from ..bench import full_speed, reset_midway, stalled

__all__ = ["full_speed", "reset_midway", "stalled"]
