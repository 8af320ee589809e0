"""PYNQ: a driver that a board runs by itself, without fabtune installed, and the data that it reads."""
