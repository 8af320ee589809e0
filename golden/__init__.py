"""Golden models: the integers that hardware must reproduce bit for bit, and training software. Never imports hw."""
