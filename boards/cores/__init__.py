"""Cores on a board: a room for each, with jobs, self-test, example and cost."""
