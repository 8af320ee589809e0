"""PYNQ: a driver that runs on a board without fabtune, and the driver's data."""
