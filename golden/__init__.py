"""Golden models: bit-exact integer references of the hardware, and training software. Never imports hw."""
