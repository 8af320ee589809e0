"""Adapter training in RTL: schedulers, backward sequencer, update and record packing."""
