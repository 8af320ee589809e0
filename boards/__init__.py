"""Boards: platform facts, constraints, Vivado flow templates and resource estimates."""
