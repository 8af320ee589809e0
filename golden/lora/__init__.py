"""Low-rank adapters that add to the logits: forward, backward, update, forward cache and integer job."""
