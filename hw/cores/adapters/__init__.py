"""Trainer of adapters in RTL, shared by the cores of any engine."""
