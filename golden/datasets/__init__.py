"""Datasets: the embedded digits, readers for files, and drifts."""
