"""Bench of `nf4_quant`: blocks of all lengths, of zeros, with -128.0, with ties; the spec's cycles."""

from ..bench import full_speed, reset_midway, stalled

__all__ = ["full_speed", "reset_midway", "stalled"]
