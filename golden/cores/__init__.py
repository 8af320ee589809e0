"""Cores for users: specs, registers, memory layouts and golden models."""
