"""A logic analyser's table: every radix it may be in, and everything that is no such table."""

import re

import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.rng.urng import UrngSpec
from fabtune.hw.top import plain_port
from fabtune.sim.captures.capture import read_capture

URNG = UrngSpec(n=5, bits=7)
STREAM = URNG.streams()["o"]
NUMBERS = URNG.run({}, 12)["o"]["number"].tolist()
WIRE = STREAM.pack(URNG.run({}, 12)["o"], ["number"])
WIDTH = 35


def read(path):
    ports = {name: plain_port(name, stream) for name, stream in URNG.streams().items()}
    return read_capture(path, URNG, ports)["o"]["number"].tolist()


def refused(path, message):
    with pytest.raises(UserError) as caught:
        read(path)
    assert re.search(message, str(caught.value)), str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


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


def test_csv_without_a_radix_is_hexadecimal(tmp_path):
    (tmp_path / "c.csv").write_text("o_number\n10\n")
    assert read(tmp_path / "c.csv") == [[16, 0, 0, 0, 0]]


def test_csv_with_a_byte_order_mark(tmp_path):
    (tmp_path / "c.csv").write_bytes(b"\xef\xbb\xbfo_number\r\n10\r\n")
    assert read(tmp_path / "c.csv")[0][0] == 16


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
        ("o_number\n-1\n", r"line 2: o_number = '-1' is not a number of base 16"),
        ("o_number\n800000000\n", r"line 2: o_number = '800000000' does not fit into 35 bits as HEX"),
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
        ("o_number\n" + "9" * 200_000 + "\n", r"is not text with commas"),
    ],
)
def test_csv_refused(tmp_path, text, message):
    (tmp_path / "c.csv").write_text(text)
    refused(tmp_path / "c.csv", message)


def test_csv_that_is_binary_is_refused(tmp_path):
    (tmp_path / "c.csv").write_bytes(b"o_number\n\xff\xfe\x80\n")
    refused(tmp_path / "c.csv", "is not text with commas")
