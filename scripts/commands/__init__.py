"""A module for each command; `scripts.cli` imports the module of a requested command.

A module holds `command`, a click command. Module-level imports are only modules with short loading times.
"""
