"""`fabtune sweep`: a sweep in one process or several, and its report."""
