"""Stress tests of compiled cores, correct or faulty: short jobs on fault-injecting buses, commands near limits."""
