"""Bench of `axi_write`: random commands and data, all of the memory compared, then a second job without a reset."""

from ..busbench import full_speed, reset_midway, stalled

__all__ = ["full_speed", "reset_midway", "stalled"]
