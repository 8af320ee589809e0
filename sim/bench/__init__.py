"""The bench of every block: `plan` describes a run, the other modules execute it inside the simulator.

The simulator loads `tests`, which needs no golden models and no NumPy: a bench plan lists integers for each wire and
the number of output words. Outputs go to a file; after the simulation the code for board captures compares them.
"""
