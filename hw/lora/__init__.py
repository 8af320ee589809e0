"""RTL of adapter training: engine, backward pass, update, job schedulers and records."""
