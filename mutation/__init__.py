"""Mutation testing: single faults in a block's RTL, the bench that should see them, and proofs that nothing could."""
