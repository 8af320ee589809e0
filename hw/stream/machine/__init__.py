"""RTL of programs of the core that streams transformers."""
