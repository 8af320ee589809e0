"""A logic analyser's table: every radix, and malformed tables."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabtune.golden.errors import UserError
from fabtune.golden.rng.urng import UrngSpec
from fabtune.hw.top import plain_port
from fabtune.sim.captures.capture import read_capture
from fabtune.sim.captures.table import RADICES, Table, radices_of

URNG = UrngSpec(n=5, bits=7)
STREAM = URNG.streams()["o"]
NUMBERS = URNG.run({}, 12)["o"]["number"].tolist()
WIRE = STREAM.pack(URNG.run({}, 12)["o"], ["number"])
WIDTH = 35
MARKS = "Sample in Buffer,Sample in Window,TRIGGER"


def read(path, *radices):
    ports = {name: plain_port(name, stream) for name, stream in URNG.streams().items()}
    return read_capture(path, URNG, ports, radices_of(radices))["o"]["number"].tolist()


def refused(path, message, *radices):
    with pytest.raises(UserError) as caught:
        read(path, *radices)
    assert re.search(message, str(caught.value)), str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def attempt(convert):
    """The values, or the refusal."""
    try:
        return convert(), ""
    except UserError as error:
        return None, str(error)


def written(number, width, radix, padded):
    """A cell in the logic analyser's format."""
    if radix == "UNSIGNED":
        return str(number)
    if radix == "SIGNED":
        return str(number - (number >> (width - 1) << width) if width > 1 else number)
    sign, bits = {"HEX": ("x", 4), "OCTAL": ("o", 3), "BINARY": ("b", 1)}[radix]
    return f"{number:{f'0{-(-width // bits)}' if padded else ''}{sign}}"


@pytest.mark.parametrize(
    ("radix", "write"),
    [
        ("HEX", lambda word: f"{word:09X}"),
        ("HEX", lambda word: f"0x{word:x}"),
        ("UNSIGNED", str),
        ("SIGNED", lambda word: str(word - (word >> (WIDTH - 1) << WIDTH))),
        ("BINARY", lambda word: f"{word:035b}"),
        ("OCTAL", lambda word: f"{word:o}"),
    ],
    ids=["HEX", "HEX with 0x", "UNSIGNED", "SIGNED", "BINARY", "OCTAL"],
)
def test_csv_in_every_radix(tmp_path, radix, write):
    rows = [f"0,{write(word)}\n" for word in WIRE]
    (tmp_path / "c.csv").write_text(f"n,o_number\nRadix - UNSIGNED,{radix}\n" + "".join(rows))
    assert read(tmp_path / "c.csv") == NUMBERS


@given(
    width=st.integers(1, 40),
    seed=st.lists(st.integers(0, 2**40 - 1), min_size=1, max_size=6),
    radix=st.sampled_from(RADICES),
    padded=st.booleans(),
    export=st.booleans(),
)
def test_a_radix_is_found_asked_for_or_given_and_never_guessed(tmp_path_factory, width, seed, radix, padded, export):
    path = tmp_path_factory.mktemp("radix") / "c.csv"
    numbers = [number >> 40 - width for number in seed]
    marks = f"{MARKS}," if export else ""
    rows = [f"{'0,0,0,' * export}{written(number, width, radix, padded)}\n" for number in numbers]
    path.write_text(f"{marks}a/w[{width - 1}:0]\n" + "".join(rows))
    everything = list(range(len(numbers)))
    found, refusal = attempt(lambda: Table(path).integers("w", width, everything))
    assert "--radix w=" in refusal if refusal else found == numbers
    for given_radix in ({"": radix}, {"w": radix, "": "HEX"}):
        assert Table(path, given_radix).integers("w", width, everything) == numbers
    header, *rest = path.read_text().splitlines()
    path.write_text("\n".join([header, f"Radix - {'UNSIGNED,' * 3 * export}{radix}", *rest]))
    assert Table(path).integers("w", width, everything) == numbers


@pytest.mark.parametrize("radix", RADICES)
def test_a_whole_export_from_before_2019_2_needs_no_radix(tmp_path, radix):
    rows = [f"{k},{k},{k == 0:d},{written(word, WIDTH, radix, True)}\n" for k, word in enumerate(WIRE)]
    (tmp_path / "c.csv").write_text(f"{MARKS},u/o_number[34:0]\n" + "".join(rows))
    assert read(tmp_path / "c.csv") == NUMBERS
    assert read(tmp_path / "c.csv", radix.lower()) == NUMBERS


@pytest.mark.parametrize(
    ("marks", "cells", "numbers"),
    [
        ("", ["1f"], [[31, 0, 0, 0, 0]]),
        ("", ["-1"], [[-1] * 5]),
        ("", ["1", "0"], [[1, 0, 0, 0, 0], [0] * 5]),
        (MARKS, ["12345678901"], [[53, 56, -16, -2, 45]]),
        (MARKS, ["000000010"], [[16, 0, 0, 0, 0]]),
        (MARKS, ["0" * 30 + "10000"], [[16, 0, 0, 0, 0]]),
    ],
)
def test_a_radix_that_alone_is_possible_is_found(tmp_path, marks, cells, numbers):
    rows = [",".join(["0"] * 3 * bool(marks) + [cell]) for cell in cells]
    (tmp_path / "c.csv").write_text("\n".join([f"{marks},o_number[34:0]" if marks else "o_number", *rows]))
    assert read(tmp_path / "c.csv") == numbers


@pytest.mark.parametrize(
    ("text", "radices", "message"),
    [
        ("o_number\n10\n", (), r"line 1: o_number may be HEX or UNSIGNED or .*, and there is no row of radices: say"),
        ("o_number\n-1\n1f\n", (), r"line 1: no radix fits all cells of o_number"),
        ("o_number\n1f\n", ("octal",), r"line 2: o_number = '1f' is not a number of base 8"),
        ("o_number\nRadix - HEX\n1f\n", ("hex",), r"line 2 has a row of radices: leave --radix out"),
        ("o_number\n1f\n", ("other=hex",), r"--radix: .* has no column for other; the columns are o_number"),
    ],
)
def test_a_radix_is_refused_where_it_does_not_apply(tmp_path, text, radices, message):
    (tmp_path / "c.csv").write_text(text)
    refused(tmp_path / "c.csv", message, *radices)


def test_a_radix_is_for_tables_alone(tmp_path):
    (tmp_path / "c.hex").write_text("1\n")
    refused(tmp_path / "c.hex", r"--radix is for a .csv without a row of radices", "hex")


@pytest.mark.parametrize("given_radix", ["decimal", "=hex", "o_number", "hex=", "o_number=ascii"])
def test_what_is_no_radix_is_refused(given_radix):
    with pytest.raises(UserError, match=r"give RADIX or WIRE=RADIX, the radix one of hex, unsigned"):
        radices_of([given_radix])


def test_a_radix_is_given_once():
    assert radices_of(["hex", "a=Signed"]) == {"": "HEX", "a": "SIGNED"}
    with pytest.raises(UserError, match="given twice for a: signed and a=hex"):
        radices_of(["a=signed", "a=hex"])


@pytest.mark.parametrize("radix", [["UNSIGNED", "HEX"], ["HEX"], None])
def test_rows_without_a_sample_are_left_out(tmp_path, radix):
    # chipscopy writes no radix for GAP, and X for each digit of a missing sample
    rows = [f"{2 * k},{2 * k},0,0,{word:09x}\n{2 * k + 1},{2 * k + 1},0,1,XXXXXXXXX\n" for k, word in enumerate(WIRE)]
    radices = [",".join(["Radix - UNSIGNED", "UNSIGNED", "UNSIGNED", *radix]) + "\n"] if radix else []
    (tmp_path / "c.csv").write_text("".join([f"{MARKS},GAP,u/o_number[34:0]\n", *radices, *rows]))
    assert read(tmp_path / "c.csv") == NUMBERS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{MARKS},o_number[34:0]\n0,0,0,f\n1,1,1,f\n2,0,0,f\n", r"line 4: another window of the analyser begins"),
        (f"{MARKS},o_number[34:0]\n0,x,0,f\n", r"line 2: Sample in Window is 'x'"),
        (f"{MARKS},GAP,o_number[34:0]\n0,0,0,2,f\n", r"line 2: GAP is '2', neither 0 nor 1"),
        (f"{MARKS},GAP,o_number[34:0]\n0,0,0,1,X\n", r"has a header but no samples"),
        (f"{MARKS},GAP,o_number[34:0],a\nRadix - UNSIGNED,UNSIGNED,UNSIGNED,HEX,OCTAL\n", r"line 2: 5 radices for 6"),
        (f"{MARKS},o_number[34:0]\nRadix - UNSIGNED,UNSIGNED,HEX\n", r"line 2: 3 radices for 4 columns"),
        (f"{MARKS},o_number\n0,0,0,1\n", r"line 1: 'o_number' has 1 bit, o_number has 35: capture all"),
        (f"{MARKS},u/o_number[4]\n0,0,0,1\n", r"line 1: 'u/o_number\[4\]' has 1 bit from bit 4 on, o_number has 35"),
        ("o_number[4]\n1\n", r"line 1: 'o_number\[4\]' has 1 bit from bit 4 on, o_number has 35"),
        ("o_number[39:5]\n1\n", r"line 1: 'o_number\[39:5\]' has 35 bits from bit 5 on, o_number has 35"),
        ("o_number[34:0],o_valid[1]\nf,1\n", r"'o_valid\[1\]' has 1 bit from bit 1 on, o_valid has 1"),
        ("o_number[15:0],o_number[34:16]\n1,1\n", r"several columns for o_number, .*: keep one, of all its bits"),
    ],
)
def test_a_part_of_a_wire_or_of_time_is_refused(tmp_path, text, message):
    (tmp_path / "c.csv").write_text(text)
    refused(tmp_path / "c.csv", message)


@pytest.mark.parametrize("header", ["o_number[34:0],o_valid[0]", "o_number[0:34],o_valid[0:0]"])
def test_a_range_of_the_whole_wire(tmp_path, header):
    (tmp_path / "c.csv").write_text(f"{header}\n1f,1\n")
    assert read(tmp_path / "c.csv") == [[31, 0, 0, 0, 0]]


def test_csv_with_a_byte_order_mark(tmp_path):
    (tmp_path / "c.csv").write_bytes(b"\xef\xbb\xbfo_number\r\n1f\r\n")
    assert read(tmp_path / "c.csv")[0][0] == 31
    (tmp_path / "c.csv").write_text("o_number\n1f\n", encoding="utf-16")
    refused(tmp_path / "c.csv", "is UTF-16 text: save it as UTF-8")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"is empty: export the capture with a header row"),
        ("o_number\n", r"has a header but no samples"),
        ("o_number\nRadix - HEX\n", r"has a header but no samples"),
        ("a,b\n1,2\n", r"line 1: no column of an output of urng: need scan, o_number; there are a, b"),
        ("o_number,x\n1,2\n3\n", r"line 3: 1 cells, the header has 2"),
        ("o_number\n1,2\n", r"line 2: 2 cells, the header has 1"),
        ("o_number\n1\nhello\n", r"line 3: o_number = 'hello' is not a number of base 16"),
        ("o_number\n1\n\n1.5\n", r"line 4: o_number = '1.5' is not a number"),
        ("o_number,x\n,1\n", r"line 2: o_number = '' is not a number"),
        ("o_number\nf00000000\n", r"line 2: o_number = 'f00000000' does not fit into 35 bits as HEX"),
        ("o_number\n7xxxxffff\n", r"line 2: o_number = '7xxxxffff' is not known or not driven"),
        ("o_number\nZ\n", r"line 2: o_number = 'Z' is not known or not driven"),
        ("o_number,o_valid\n1,x\n", r"line 2: o_valid = 'x' is not known"),
        ("o_number,o_valid\n1,2\n", r"line 2: o_valid = '2' does not fit into 1 bits"),
        ("o_number,o_valid,o_ready\n1,1,0\n1,0,1\n", r"o_valid and o_ready never 1 in one row"),
        ("o_number[31:0]\n1\n", r"line 1: 'o_number\[31:0\]' has 32 bits, o_number has 35"),
        (
            "a/o_number,b/o_number\n1,1\n",
            r"line 1: several columns for o_number, a/o_number, b/o_number: keep one",
        ),
        ("o_number\nRadix - ASCII\n1\n", r"line 2: o_number has the radix 'ASCII': set it to HEX"),
        (
            "o_number\nRadix - UNSIGNED\nff\n",
            r"line 3: o_number = 'ff' is not a number of base 10 .* radix to HEX",
        ),
        ("o_number\nRadix - SIGNED\n17179869184\n", r"line 3: .* does not fit into 35 bits as SIGNED"),
        (
            "o_number\nRadix - UNSIGNED\n" + "9" * 5000 + "\n",
            r"line 3: .* is not a number of base 10 for 35 bits",
        ),
        ("o_number\n" + "9" * 200_000 + "\n", r"line 2: .* does not fit into 35 bits as HEX"),
        ('o_number,x\n1,"y\n2,z\n', r"line 2: a quote is left open"),
    ],
)
def test_csv_refused(tmp_path, text, message):
    (tmp_path / "c.csv").write_text(text)
    refused(tmp_path / "c.csv", message)


def test_csv_that_is_binary_is_refused(tmp_path):
    (tmp_path / "c.csv").write_bytes(b"o_number\n\xff\xfe\x80\n")
    refused(tmp_path / "c.csv", "line 2 is not utf-8 text")
