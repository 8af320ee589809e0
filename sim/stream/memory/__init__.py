"""Stimulus and benches of the activation memory and of the samples that come from DRAM."""
