"""Trainer of adapters: what all cores have in common that train by it, whatever engine computes their passes."""
