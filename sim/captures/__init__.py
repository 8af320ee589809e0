"""Comparison of captures from boards and simulators with golden."""
