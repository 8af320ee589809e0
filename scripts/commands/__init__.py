"""A module for each command; `scripts.cli` imports the module of a requested command.

A module holds `command`, a click command. At module level it imports only modules that load fast.
"""
