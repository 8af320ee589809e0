"""Datasets: embedded digits, readers for files, and drifts."""
