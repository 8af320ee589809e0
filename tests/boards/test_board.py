"""Platform data, and a design's share of a board."""

import itertools
import json
import math

import pytest

from fabtune.boards.board import BOARDS, DEFAULT_MHZ, MEANT, RESOURCES, board
from fabtune.golden.errors import UserError

DESIGN = {"lut": 27_408.0, "ff": 0.0, "bram36": 4.5, "uram": 0.0, "dsp": 1_260.0}


def test_facts_of_the_zcu102():
    zcu102 = board("zcu102")
    assert (zcu102.part, zcu102.device) == ("xczu9eg-ffvb1156-2-e", "xczu9eg")
    assert zcu102.board_part == "xilinx.com:zcu102:part0:3.4"
    assert zcu102.resources == {"lut": 274_080, "ff": 548_160, "bram36": 912, "uram": 0, "dsp": 2_520}
    clocks = {clock.mhz: (clock.p, clock.n, clock.standard) for clock in zcu102.clocks}
    assert clocks == {
        125: ("G21", "F21", "LVDS_25"),
        300: ("AL8", "AL7", "DIFF_SSTL12"),
        74.25: ("AK15", "AK14", "LVDS_25"),
    }
    pins = {group.name: group.pins for group in zcu102.pins}
    assert pins["cpu_reset"] == ("AM13",)
    assert pins["led"] == ("AG14", "AF13", "AE13", "AJ14", "AJ15", "AH13", "AH14", "AL12")
    assert pins["dip"] == ("AN14", "AP14", "AM14", "AN13", "AN12", "AP12", "AL13", "AK13")
    assert pins["button"] == ("AG13", "AF15", "AE15", "AE14", "AG15")


@pytest.mark.parametrize("name", BOARDS)
def test_clocks_are_those_that_two_dividers_reach(name):
    clock = board(name).processor_clock
    assert {150, 166.666667, 187.5, 214.285714, 250, 300} <= set(clock.rates)
    assert not {200.0, 240.0, 333.333333, 375.0} & set(clock.rates)
    assert clock.rates[-1] == 300
    for rate in clock.rates:
        divider = round(1500 / rate)
        assert any(divider % one == 0 and divider // one <= 63 for one in range(1, 64))
        assert round(1500 / divider, 6) == rate
    # a rate written with a decimal is unambiguous
    assert all(after - before > 2 * MEANT for before, after in itertools.pairwise(clock.rates))
    assert clock.rate(214.3) == clock.rate(214.285714) == clock.rate(1500 / 7) == 214.285714
    assert clock.rate(187.498123) == clock.rate(DEFAULT_MHZ) == 187.5


def linux_rate(asked, pll):
    """Rate set by Linux, from `round_rate` and `set_rate` of drivers/clk/zynqmp/divider.c; both in Hz."""
    pairs = [(one, two) for one in range(1, 64) for two in range(1, 64)]
    _, second = min(pairs, key=lambda pair: abs(pll // pair[0] // pair[1] - asked))
    first = min((pll + asked * second // 2) // (asked * second), 63)
    middle = -(-pll // first)
    return -(-middle // ((middle + asked // 2) // asked))


@pytest.mark.parametrize("pll", [1_500_000_000, 1_499_985_000, 1_499_850_000])
def test_linux_makes_of_a_rate_what_vivado_makes_of_it(pll):
    """Also for references of 33.333 and 33.33 MHz; 200 MHz becomes 214.3 with the slightly slower reference."""
    for rate in board("kv260").processor_clock.rates:
        assert linux_rate(round(rate * 1e6), pll) == pytest.approx(rate * 1e6 * pll / 1.5e9, abs=2)
    if pll < 1_500_000_000:
        assert linux_rate(200_000_000, pll) == pytest.approx(pll / 7, abs=2)


@pytest.mark.parametrize(
    ("mhz", "take"),
    [
        (200, "187.5 or 214.3"),
        (187.6, "187.5 or 214.3"),
        (299, "250 or 300"),
        (20.1, "20 or 20.27"),
        (301, "20 to 300"),
        (19.9, "20 to 300"),
        (-5, "20 to 300"),
        (math.nan, "20 to 300"),
        (math.inf, "20 to 300"),
    ],
)
def test_other_clocks_are_refused_with_their_neighbours(mhz, take):
    with pytest.raises(UserError, match=rf"^{mhz:g} MHz is no clock of this board: .* integers; take {take}$"):
        board("zcu102").processor_clock.rate(mhz)


def test_facts_of_the_kv260():
    kv260 = board("kv260")
    assert (kv260.part, kv260.device) == ("xck26-sfvc784-2LV-c", "xck26")
    assert kv260.board_part == "xilinx.com:kv260_som:part0:1.4"
    assert kv260.board_connections == "som240_1_connector xilinx.com:kv260_carrier:som240_1_connector:1.3"
    assert kv260.resources == {"lut": 117_120, "ff": 234_240, "bram36": 144, "uram": 64, "dsp": 1_248}
    assert kv260.clocks == ()
    pins = {group.name: group.pins for group in kv260.pins}
    assert pins["pmod_top"] == ("H12", "E10", "D10", "C11")
    assert pins["pmod_bottom"] == ("B10", "E12", "D11", "B11")


@pytest.mark.parametrize("target", BOARDS.values(), ids=BOARDS)
def test_no_pin_is_named_twice_and_every_resource_is_stated(target):
    pins = [pin for clock in target.clocks for pin in (clock.p, clock.n)]
    pins += [pin for group in target.pins for pin in group.pins]
    assert len(set(pins)) == len(pins)
    assert tuple(target.resources) == RESOURCES


def test_unknown_board_names_the_choices():
    with pytest.raises(UserError, match=r"^no board called 'pynq': choose one of zcu102, kv260$"):
        board("pynq")


def test_utilisation_in_percent():
    share = board("zcu102").utilisation(DESIGN)
    assert share == {"lut": 10.0, "ff": 0.0, "bram36": 450 / 912, "uram": 0.0, "dsp": 50.0}
    assert board("zcu102").lacks(DESIGN) == ()


def test_a_full_board_fits_and_one_more_does_not():
    kv260 = board("kv260")
    assert kv260.lacks(kv260.resources) == ()
    assert kv260.lacks({**kv260.resources, "dsp": 1_249}) == ("dsp",)
    assert kv260.lacks(DESIGN) == ("dsp",)


def test_a_resource_that_the_board_lacks_is_null_not_infinite():
    share = board("zcu102").utilisation({**DESIGN, "uram": 1.0})
    assert share["uram"] is None
    assert json.loads(json.dumps(share, allow_nan=False)) == share
    assert board("zcu102").lacks({**DESIGN, "uram": 1.0}) == ("uram",)
    assert board("kv260").utilisation({**DESIGN, "uram": 1.0})["uram"] == 100 / 64


def test_a_missing_resource_is_an_error_not_zero():
    without = {key: value for key, value in DESIGN.items() if key != "uram"}
    with pytest.raises(UserError, match=r"no uram: give exactly lut, ff, bram36, uram, dsp"):
        board("kv260").utilisation(without)


def test_an_unknown_resource_is_an_error():
    with pytest.raises(UserError, match=r"unknown bram18"):
        board("kv260").utilisation({**DESIGN, "bram18": 2})


@pytest.mark.parametrize("amount", [-1.0, math.nan, math.inf])
def test_an_amount_is_a_number(amount):
    with pytest.raises(UserError, match=rf"lut = {amount} is not an amount"):
        board("kv260").utilisation({**DESIGN, "lut": amount})
