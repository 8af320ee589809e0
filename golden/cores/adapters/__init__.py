"""Adapters, a trainer: what all cores have in common that train them, whatever engine computes their passes."""
