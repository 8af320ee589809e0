"""Random-number generators: LFSRs, the PeZO array and pool, the Gaussian baseline, and statistics."""
