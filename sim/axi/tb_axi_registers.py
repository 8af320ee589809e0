"""Bench of `axi_registers`: random accesses while what the core drives changes, then more without a reset."""

from ..busbench import full_speed, reset_midway, stalled

__all__ = ["full_speed", "reset_midway", "stalled"]
