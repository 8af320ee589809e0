"""Cores that a user instantiates: specs, registers and memory layouts."""
