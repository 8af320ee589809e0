"""The bench of every block: `plan` writes what it does, the other modules run inside the simulator.

The simulator loads `tests`, which needs neither golden nor NumPy: a bench plan says which integers go into which wires
and how many words come out. What came out is written to a file and compared outside, by the code that compares a
board's capture.
"""
