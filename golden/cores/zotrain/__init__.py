"""Zeroth-order training of whole networks: spec and registers."""
