"""Compiled simulation of whole jobs: Verilator with a C++ harness and DRAM model."""
