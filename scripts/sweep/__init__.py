"""`fabtune sweep`: a sweep in one or several processes, and the report."""
