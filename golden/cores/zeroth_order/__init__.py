"""Zeroth order, a trainer: what all cores have in common that train by it, whatever engine computes their passes."""
