"""Import of users' networks: a file or module to a graph, and behind it layers and transformer operations."""
