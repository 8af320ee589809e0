"""What the command line has for one core alone."""
