"""Jobs of a core's package: the user's network, weights and samples."""
