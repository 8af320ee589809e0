"""Cores that a user instantiates, in RTL."""
