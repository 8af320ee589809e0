"""Address of the first error: bits within a beat are constants, without registers."""

import re

import pytest

from fabtune.golden.axi.axi_read import AxiReadSpec
from fabtune.golden.axi.axi_write import AxiWriteSpec
from fabtune.hw.verilog import emit


@pytest.mark.parametrize(
    "spec", [AxiReadSpec(burst=4, depth=8), AxiWriteSpec(burst=4, depth=8, outstanding=4)], ids=["read", "write"]
)
def test_bits_within_a_beat_are_constants(spec):
    assert re.search(r"assign error_address = \{ \w+, 4'h0 \};", emit(spec).verilog)
