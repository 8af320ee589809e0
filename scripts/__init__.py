"""Command line and its pages, thin: what it runs is in the other houses."""
