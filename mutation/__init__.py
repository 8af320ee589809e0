"""Mutation testing: single faults in RTL, detection by benches or rules, and proofs of equivalence for the rest."""
