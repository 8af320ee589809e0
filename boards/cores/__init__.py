"""Cores on a board: jobs, self-test, example and sweep of each core."""
