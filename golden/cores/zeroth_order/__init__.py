"""Trainer by zeroth order, shared by the cores of any engine."""
