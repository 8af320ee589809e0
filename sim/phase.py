"""Phases and steps: what a bench does with a block, and what golden expects of it."""

from ..golden.block import ANSWERING, HOST, Phase, Step

__all__ = ["ANSWERING", "HOST", "Phase", "Step"]
