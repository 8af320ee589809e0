"""Bench of `adapter`: parameters, batches of most samples, of one, of any number; others, and a batch."""

from ..bench import full_speed, reset_midway, stalled

__all__ = ["full_speed", "reset_midway", "stalled"]
