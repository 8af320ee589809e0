"""RTL of the streaming core's parts."""
