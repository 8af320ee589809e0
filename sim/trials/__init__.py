"""Stress tests of correct and faulty compiled cores: short jobs on fault-injecting buses, commands near limits."""
