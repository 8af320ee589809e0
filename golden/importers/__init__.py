"""Import of users' networks: a file or module as a graph, then as layers or transformer operations."""
