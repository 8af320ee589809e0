"""Test bench of a package: the core in the user's own simulation, with cocotb and in plain SystemVerilog."""
