"""Bench of `grng`: numbers from reset on, then on from where they stopped."""

from ..bench import full_speed, reset_midway, stalled

__all__ = ["full_speed", "reset_midway", "stalled"]
