"""Trainer of adapters, shared by the cores of any engine."""
