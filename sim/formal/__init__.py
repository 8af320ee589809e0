"""Formal proofs of the RTL: rules about a block's ports, proved for all inputs and all times."""
