"""`fabtune demo`: both cores on drifted digits, with a report."""
