"""Zeroth order, a trainer, in RTL: what all cores have in common that train by it."""
