"""RTL of programs: instruction checks and the program sequencer."""
