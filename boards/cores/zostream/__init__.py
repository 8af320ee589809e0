"""`zostream` on a board: jobs, self-test, example."""
