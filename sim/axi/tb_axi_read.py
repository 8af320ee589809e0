"""Bench of `axi_read`: random commands to a random memory, then a second job without a reset."""

from ..busbench import full_speed, reset_midway, stalled

__all__ = ["full_speed", "reset_midway", "stalled"]
