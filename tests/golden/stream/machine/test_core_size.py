"""Sizes of the streaming core."""

import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.stream.machine.core_size import ARRAYS, CoreSize


def test_arrays_by_name():
    assert [CoreSize.of_array(one).multipliers for one in ARRAYS] == [512, 1024, 2048]
    assert CoreSize.of_array("32x16") == CoreSize()
    for wrong in ("32", "32x0", "0x16", "32X16", "99999x2"):
        with pytest.raises(UserError, match="lanes x columns"):
            CoreSize.of_array(wrong)
    with pytest.raises(UserError, match="rows = 0"):
        CoreSize(rows=0)


def test_what_follows_from_the_array_and_the_ports():
    """Same buffer capacity for each array; two lanes a cycle are loaded, and 32 codes dequantised.

    Two ports together deliver a beat a cycle.
    """
    sizes = [CoreSize.of_array(one) for one in ARRAYS]
    assert {one.rows * one.lanes for one in sizes} == {12_288 * 32}
    assert {one.wide_rows * one.columns for one in sizes} == {4_096 * 16}
    assert [one.load_cycles for one in sizes] == [16, 16, 32]
    assert [one.dequantisation_cycles for one in sizes] == [16, 32, 64]
    assert CoreSize.of_array("32x32", ports=2).dequantisation_cycles == 32
    both = [CoreSize(ports=ports) for ports in (1, 2)]
    assert [one.port_bytes for one in both] == pytest.approx([11.2, 11.2])
    assert [one.stream_bytes for one in both] == pytest.approx([11.2, 16])
