"""Trials of compiled cores: short jobs on hostile buses, commands near every limit, both also with faults in a core."""
