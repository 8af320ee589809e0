"""Vivado projects: Tcl, constraints, packaging and the utilisation report."""
