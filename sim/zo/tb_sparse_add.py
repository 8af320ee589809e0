"""Bench of `sparse_add`: packets with no, few, crowded and wrong corrections, then a second job without a reset."""

from ..bench import full_speed, reset_midway, stalled

__all__ = ["full_speed", "reset_midway", "stalled"]
