"""Tables of `zotrain`."""
