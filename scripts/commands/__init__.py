"""One module for each command; `scripts.cli` imports a module when its command is asked for.

A module holds `command`, a click command. At module level it imports nothing that takes time to load.
"""
