"""Third-party captures: written values come back, and malformed files are refused with the place of the error."""

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabtune.golden.block import Field, Spec, Stream
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Format
from fabtune.golden.rng.urng import UrngSpec
from fabtune.hw.top import axis_port, plain_port
from fabtune.sim.captures.capture import read_capture

URNG = UrngSpec(n=5, bits=7)
BIT = Format(1, 0, signed=False)


@dataclass(frozen=True, kw_only=True)
class Core(Spec):
    """A core with a fed stream, a special field and a sideband; numbers have no whole bytes."""

    name: ClassVar[str] = "core"
    summary: ClassVar[str] = "for tests"
    core: ClassVar[bool] = True
    latency = 1

    def streams(self):
        return {
            "i": Stream("in", (Field("a", Format(2, 10), 3),)),
            "o": Stream("out", (Field("a", Format(2, 10), 3), Field("last", BIT))),
            "mark": Stream("in", (Field("bit", BIT),), follows="o"),
        }

    def stimulus(self, rng, words):
        return {"i": {"a": rng.integers(-2048, 2048, (words, 3))}}

    def run(self, inputs, words):
        a = inputs["i"]["a"][:words]
        return {"o": {"a": -1 - a, "last": a[:, :1] & 1}}


CORE = Core()


def ports_of(spec):
    return {name: (axis_port if spec.core else plain_port)(name, s) for name, s in spec.streams().items()}


def columns_of(spec, capture):
    """Wire name to (integers, width) for every stream of a capture."""
    columns = {}
    for name, words in capture.items():
        stream = spec.streams()[name]
        for wire in ports_of(spec)[name].wires:
            columns[wire.name] = (stream.pack(words, wire.fields, wire.align), wire.width(stream))
    return columns


def same(one, other):
    return one.keys() == other.keys() and all(
        one[s].keys() == other[s].keys() and all(np.array_equal(one[s][f], other[s][f]) for f in one[s]) for s in one
    )


def read(path, spec=URNG):
    return read_capture(path, spec, ports_of(spec))


def refused(path, message, spec=URNG):
    with pytest.raises(UserError) as caught:
        read(path, spec)
    assert re.search(message, str(caught.value)), str(caught.value)
    assert str(caught.value).startswith(("no file", str(path)))
    assert "\n" not in str(caught.value)


def attempt(path):
    """The values of a file, or the reader's message."""
    try:
        return read(path), ""
    except UserError as error:
        return None, str(error)


def core_words(count=20, seed=0):
    given = CORE.stimulus(np.random.default_rng(seed), count)
    return given | CORE.run(given, count)


def write_csv(path, header, rows, radix=None):
    lines = [header] + ([radix] if radix else []) + rows
    path.write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
    return path


# Q1.6 in two's complement, as on the wire
WORDS = URNG.run({}, 12)
WIRE, WIDTH = columns_of(URNG, WORDS)["o_number"]
HEX = [f"{word:x}" for word in WIRE]


def test_npz(tmp_path):
    np.savez(tmp_path / "c.npz", **{"o.number": WORDS["o"]["number"], "comment": np.arange(3)})
    assert same(read(tmp_path / "c.npz"), WORDS)


@pytest.mark.parametrize("dtype", ["int8", "int64", ">i2"])
def test_npz_of_any_integer_type(tmp_path, dtype):
    np.savez_compressed(tmp_path / "c.npz", **{"o.number": WORDS["o"]["number"].astype(dtype)})
    got = read(tmp_path / "c.npz")
    assert same(got, WORDS)
    assert got["o"]["number"].dtype == np.int64


def test_npz_with_one_lane_and_inputs(tmp_path):
    words = core_words()
    arrays = {f"{s}.{f}": column for s, fields in words.items() for f, column in fields.items()}
    np.savez(tmp_path / "c.npz", **(arrays | {"o.last": arrays["o.last"][:, 0]}))
    assert same(read(tmp_path / "c.npz", CORE), words)


@settings(deadline=None, max_examples=25)
@given(
    n=st.integers(1, 9),
    bits=st.integers(4, 16),
    words=st.integers(1, 40),
    kind=st.sampled_from(["npz", "csv", "mem"]),
)
def test_round_trip(tmp_path_factory, n, bits, words, kind):
    spec = UrngSpec(n=n, bits=bits, allow_power_of_two=True)
    golden = spec.run({}, words)
    wire, width = columns_of(spec, golden)["o_number"]
    path = tmp_path_factory.mktemp("trip") / f"c.{kind}"
    if kind == "npz":
        np.savez(path, **{"o.number": golden["o"]["number"]})
    elif kind == "csv":
        write_csv(path, ["o_number"], [[f"{word:0{-(-width // 4)}x}"] for word in wire], ["Radix - HEX"])
    else:
        path.write_text("\n".join(f"{word:x}" for word in wire))
    assert same(read(path, spec), golden)


def test_core_csv_with_bytes_and_a_sideband(tmp_path):
    words = core_words() | {"mark": {"bit": np.arange(20)[:, None] % 2}}
    columns = columns_of(CORE, words)
    assert {name: width for name, (_, width) in columns.items()} == {
        "s_axis_tdata": 48,
        "m_axis_tdata": 48,
        "m_axis_tlast": 1,
        "mark": 1,
    }
    rows = [[f"{word:x}" for word in row] for row in zip(*(integers for integers, _ in columns.values()), strict=True)]
    assert same(read(write_csv(tmp_path / "c.csv", list(columns), rows), CORE), words)


def test_csv_of_vivados_logic_analyser(tmp_path):
    header = ["Sample in Buffer", "Sample in Window", "TRIGGER", "design_1_i/core/inst/o_number[34:0]"]
    header += ["design_1_i/core/inst/o_valid", "design_1_i/core/inst/o_ready", "leds[7:0]"]
    radix = ["Radix - UNSIGNED", "UNSIGNED", "UNSIGNED", "HEX", "HEX", "HEX", "ASCII"]
    rows = []
    for k, word in enumerate(HEX):
        stalled = [["XX"], ["7fffffff"]][k % 2]
        rows += [[0, 0, 0, *stalled, k % 2, 1 - k % 2, "?"], [0, 0, 0, word, 1, 1, "?"]]
    path = write_csv(tmp_path / "ila.csv", header, rows, radix)
    assert same(read(path), WORDS)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
    assert same(read(path), WORDS)


def test_csv_valid_alone_decides(tmp_path):
    path = write_csv(tmp_path / "c.csv", ["o_valid", "o_number"], [[0, "1"], [1, "2"], [0, "3"]])
    assert read(path)["o"]["number"][:, 0].tolist() == [2]


def test_csv_inputs_at_rest_are_left_out(tmp_path):
    header = ["o_number", "load_valid", "load_bit", "load_last", "scan"]
    path = write_csv(tmp_path / "c.csv", header, [[word, 0, 1, 0, 0] for word in HEX])
    assert same(read(path), WORDS)


@pytest.mark.parametrize("kind", ["hex", "mem", "txt", "HEX"])
def test_memory_words(tmp_path, kind):
    path = tmp_path / f"c.{kind}"
    head, tail = HEX[:5], HEX[5:]
    path.write_text("// dump\n@0 " + "\n".join(head) + " // five\n\n@5\n" + "\n".join(tail).upper() + "\n")
    assert same(read(path), WORDS)


def test_memory_words_with_underscores_and_prefix(tmp_path):
    path = tmp_path / "c.mem"
    path.write_text("0000_0001f\n0x2\n")
    assert read(path)["o"]["number"][:, 0].tolist() == [0x1F, 2]


def test_memory_words_between_comments(tmp_path):
    path = tmp_path / "c.mem"
    text = "/* of // a board,\r\n * dumped */ @0 // the /* first\r\n1/**/2 /* 3 */ 4\r\n/* caf\xe9 */5//6"
    path.write_bytes(text.encode("latin-1"))
    assert read(path)["o"]["number"][:, 0].tolist() == [1, 2, 4, 5]
    path.write_bytes(text.encode("latin-1") + b"\r\n/* here\r\n\r\ng */ h")
    refused(path, "line 7: 'h' is not a hexadecimal word")


def test_many_words_are_read_in_pieces(tmp_path):
    words = URNG.run({}, 5000)
    path = tmp_path / "c.mem"
    path.write_text("\n".join(f"{word:x}" for word in columns_of(URNG, words)["o_number"][0]))
    assert same(read(path), words)


def test_no_such_file(tmp_path):
    refused(tmp_path / "none.csv", "no file .*none.csv': give the path of a capture")


def test_unknown_extension(tmp_path):
    (tmp_path / "c.vcd").write_text("x")
    refused(tmp_path / "c.vcd", r"no capture ends in '.vcd': write .npz, .csv, .hex, .mem or .txt")


NUMBERS = WORDS["o"]["number"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"o.number": NUMBERS / 64}, r"o.number has dtype float64: write the integers themselves"),
        ({"o.number": NUMBERS.astype(str)}, r"o.number has dtype <U\d+"),
        ({"o.number": NUMBERS[:, :4]}, r"o.number has shape \(12, 4\): write \(words, 5\)"),
        ({"o.number": NUMBERS[:, 0]}, r"o.number has shape \(12,\): write \(words, 5\)"),
        ({"o.number": NUMBERS[None]}, r"o.number has shape \(1, 12, 5\)"),
        ({"o.number": NUMBERS[:0]}, r"o.number holds no words"),
        (
            {"o.number": NUMBERS & 127},
            r"word 0, lane \d is \d+, not in -64 to 63 \(Q1.6\): write numbers with their sign",
        ),
        ({"o.number": (NUMBERS & 127).astype("uint64") << 57}, r"lane \d is \d+, not in"),
        (
            {"o_number": NUMBERS},
            r"no array of an output of urng: need scan.bit, o.number; there are o_number",
        ),
        ({}, r"there are none"),
    ],
    ids=[
        "float",
        "text",
        "lanes",
        "one axis",
        "three axes",
        "empty",
        "unsigned",
        "far off",
        "key",
        "nothing",
    ],
)
def test_npz_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "c.npz", **arrays)
    refused(tmp_path / "c.npz", message)


def test_npz_of_objects_is_refused(tmp_path):
    np.savez(tmp_path / "c.npz", **{"o.number": np.array([{}], object)}, allow_pickle=True)
    refused(tmp_path / "c.npz", "has Python objects, which need a pickle; save numbers instead")


def test_npz_half_a_stream_is_refused(tmp_path):
    words = core_words()
    np.savez(tmp_path / "c.npz", **{"o.a": words["o"]["a"]})
    refused(tmp_path / "c.npz", "o.a without o.last: a stream needs all its fields", CORE)
    np.savez(tmp_path / "c.npz", **{"o.a": words["o"]["a"], "o.last": words["o"]["last"][:-1]})
    refused(tmp_path / "c.npz", r"differ in their words, \{'o.a': 20, 'o.last': 19\}", CORE)
    np.savez(tmp_path / "c.npz", **{"i.a": words["i"]["a"]})
    refused(tmp_path / "c.npz", "no array of an output of core", CORE)


def test_npz_damaged_anywhere_is_refused(tmp_path):
    path = tmp_path / "c.npz"
    np.savez_compressed(path, **{"o.number": NUMBERS})
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        refused(path, "not an NPZ file, or damaged|: damaged|: the header says")
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x5A]) + whole[place + 1 :])
        capture, said = attempt(path)
        # changed flags and dates of the archive do no harm, changed numbers do
        assert said.startswith(str(path)) if said else same(capture, WORDS)


def test_npy_is_refused(tmp_path):
    np.save(tmp_path / "c.npy", NUMBERS)
    (tmp_path / "c.npy").rename(tmp_path / "c.npz")
    refused(tmp_path / "c.npz", "not an NPZ file")


def test_csv_half_a_stream_is_refused(tmp_path):
    path = write_csv(tmp_path / "c.csv", ["m_axis_tdata", "m_axis_tvalid"], [["0", "1"]])
    refused(
        path,
        "line 1: m_axis_tdata without m_axis_tlast: .* the columns are m_axis_tdata, m_axis_tvalid",
        CORE,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"holds no words: write one hexadecimal word a line"),
        ("// nothing\n", r"holds no words"),
        ("1\nhello\n", r"line 2: 'hello' is not a hexadecimal word"),
        ("1\n-1\n", r"line 2: '-1' is not a hexadecimal word"),
        ("1\nxxxx\n", r"line 2: 'xxxx' is not known or not driven"),
        ("800000000\n", r"line 1: '800000000' is wider than the wire, which has 35 bits"),
        ("@1\n1\n", r"line 1: '@1' leaves a gap or goes back, word 0 is next"),
        ("@0\n1\n2\n@3\n3\n", r"line 4: '@3' leaves a gap or goes back, word 2 is next"),
        ("1\n2\n@0\n3\n", r"line 3: '@0' leaves a gap or goes back, word 2 is next"),
        ("@\n1\n", r"line 1: '@' is not a hexadecimal word"),
        ("1 /* one\n2\n", r"line 1: a comment is left open: close it with \*/"),
        ("1 */\n", r"line 1: '\*/' is not a hexadecimal word"),
        ("1\0\n", r"line 1 has a NUL byte"),
    ],
)
def test_memory_words_refused(tmp_path, text, message):
    (tmp_path / "c.mem").write_text(text)
    refused(tmp_path / "c.mem", message)


def test_memory_words_need_a_single_wire(tmp_path):
    (tmp_path / "c.mem").write_text("0\n")
    refused(tmp_path / "c.mem", "core has no single output with a single wire: write .csv or .npz", CORE)


@settings(deadline=None, max_examples=60)
@given(
    text=st.text(st.sampled_from('0179afxX@/_ ,\n-.[]o"RadixHEX'), max_size=40),
    kind=st.sampled_from(["csv", "mem"]),
)
def test_nothing_but_user_errors(tmp_path_factory, text, kind):
    path = tmp_path_factory.mktemp("any") / f"c.{kind}"
    path.write_text(("o_number\n" if kind == "csv" else "") + text)
    capture, said = attempt(path)
    assert said.startswith(str(path)) if said else len(capture["o"]["number"]) > 0
