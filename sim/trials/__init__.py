"""Stress tests of compiled cores: short jobs on fault-injecting buses, commands near limits, also on faulty cores."""
