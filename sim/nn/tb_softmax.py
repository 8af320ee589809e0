"""Bench of `softmax`: samples of all lengths, near, far and equal logits; a job's cycles are its samples' periods."""

from ..bench import full_speed, reset_midway, stalled

__all__ = ["full_speed", "reset_midway", "stalled"]
