"""Formal proofs of the RTL: rules of a block's ports, proved for all inputs and all times."""
