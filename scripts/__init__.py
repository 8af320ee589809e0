"""The click command line: thin, no logic of its own."""
