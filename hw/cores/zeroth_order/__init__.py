"""Trainer by zeroth order in RTL, shared by the cores of any engine."""
