"""`fabtune tune`: one flow, and for each kind of method what it prepares, runs and tells; and its runs read again."""
