"""The bench of every block: `plan` describes a run, the other modules execute it inside the simulator.

The simulator loads `tests`, without golden models or NumPy: a bench plan lists integers for each wire and the number of
output words. Outputs go to a file, and the code for board captures compares them outside.
"""
