"""Command line and pages; the work is done in the other packages."""
