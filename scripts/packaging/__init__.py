"""Jobs of a core's package: the network, weights and samples that the user names."""
