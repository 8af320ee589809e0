"""Bench of `instantft`: a job through registers and memory, a second on the same cache, a third with a raw one."""

from ..busbench import full_speed, reset_midway, stalled

__all__ = ["full_speed", "reset_midway", "stalled"]
