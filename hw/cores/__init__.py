"""Cores for users, in RTL."""
