"""RTL of `zotrain`."""
