"""Every file format with arbitrary damage: read, or refused with a one-line error."""

import gzip
import json
import os
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fabtune.boards.vivado.utilisation import read_report
from fabtune.golden.datasets.images import read_idx
from fabtune.golden.datasets.npz import npz
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Format
from fabtune.golden.models.checkpoint import load_into, load_state, save_state
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.rng.urng import UrngSpec
from fabtune.golden.settings import build
from fabtune.golden.train.text.tasks import text_task
from fabtune.golden.train.tuned.run_file import LAYOUT, Run
from fabtune.golden.train.zo.delta_file import Delta
from fabtune.golden.train.zo.periodic import Periodic
from fabtune.hw.top import ports_of
from fabtune.mutation.record import Record
from fabtune.sim.captures.capture import read_capture

EXAMPLES = int(os.environ.get("FABTUNE_FUZZ", 2000))
"""Damaged files per format in the slow tests."""

URNG = UrngSpec(n=3, bits=7)
NETWORK = torch.nn.Sequential(torch.nn.Linear(4, 2))
CAMPAIGN = {"block": "urng", "faults": 2}
REPORT = """| Site Type | Used |
| CLB LUTs* | 120 |
| CLB Registers | 44 |
| Block RAM Tile | 1.5 |
| URAM | 0 |
| DSPs | 4 |
"""


def npz_of(path):
    parts = ("train", "tune", "test")
    samples = {f"x_{part}": np.zeros((3, 1, 2, 2), np.uint8) for part in parts}
    np.savez(path, **samples, **{f"y_{part}": np.arange(3) for part in parts})


def idx_of(path):
    path.write_bytes(b"\0\0\x08\x03" + np.array([3, 2, 2], ">u4").tobytes() + bytes(range(12)))


def packed_idx_of(path):
    idx_of(path)
    path.write_bytes(gzip.compress(path.read_bytes(), mtime=0))


def words():
    return URNG.run({}, 6)["o"]["number"]


def capture_npz_of(path):
    np.savez(path, **{"o.number": words()})


def csv_of(path):
    rows = [f"{number},1,{number * 5 % 128:x}\n" for number in range(6)]
    path.write_text("Sample,o_valid,u/o_number[20:0]\nRadix - UNSIGNED,HEX,HEX\n" + "".join(rows))


def hex_of(path):
    path.write_text("// captured\n@0\n" + "".join(f"{number * 5 % 128:04x}\n" for number in range(6)))


def texts_of(path):
    folder = path.parent
    (folder / "prompts.txt").write_text("it was bad\nit was good\n")
    (folder / "train.csv").write_text("0,bad\n1,good\n")
    path.write_text('0,"poor, really"\n1,fine\n')


def weights_of(path):
    state = {name: one.numpy() for name, one in NETWORK.state_dict().items()}
    save_state(path, state, {"made": "here"}, force=True)


def torch_of(path):
    torch.save(NETWORK.state_dict(), path)


def delta_of(path):
    source = Periodic(build(PezoSpec, [], "otf8"))
    tensors = NETWORK.state_dict()
    Delta.of(tensors, "0" * 20, source, Format(16, 14), [(3, 5)]).save(path, force=True)


def run_of(path):
    state = {name: one.numpy() for name, one in NETWORK.state_dict().items()}
    save_state(path, state, {"layout": LAYOUT, "input": "4", "scale": "0.5", "seed": "3"}, force=True)


def record_of(path):
    fault = {
        "mode": "inv",
        "cell": "$1",
        "kind": "$add",
        "port": "A",
        "bit": 0,
        "control": -1,
        "wire": "",
        "source": "",
        "files": [],
    }
    one = {"number": 0, "fault": fault, "status": "killed"}
    path.write_text(json.dumps({"campaign": CAMPAIGN}) + "\n" + json.dumps(one) + "\n")


def capture(path):
    return read_capture(path, URNG, ports_of(URNG))


FORMATS = {
    "NPZ of samples": ("a.npz", npz_of, npz),
    "NPZ of a capture": ("a.npz", capture_npz_of, capture),
    "IDX": ("a-ubyte", idx_of, partial(read_idx, dimensions=3)),
    "IDX, packed": ("a-ubyte.gz", packed_idx_of, partial(read_idx, dimensions=3)),
    "CSV of a capture": ("a.csv", csv_of, capture),
    "CSV of sentences": ("test.csv", texts_of, lambda path: text_task(f"csv:{path.parent}")),
    "hexadecimal words": ("a.hex", hex_of, capture),
    "safetensors": ("a.safetensors", weights_of, partial(load_into, NETWORK)),
    "PyTorch": ("a.pt", torch_of, load_state),
    "run": ("a.safetensors", run_of, Run.load),
    "delta": ("a.delta", delta_of, Delta.load),
    "utilisation report": ("a.rpt", lambda path: path.write_text(REPORT), read_report),
    "campaign": ("a.jsonl", record_of, lambda path: Record(path, CAMPAIGN)),
}
"""File name, writer of a valid file, and reader."""

TOKENS = (
    *(b"\0", b"\xff" * 8, b"\x7f\xff\xff\xff", b"\n", b",", b'"', b"-1", b"nan", b"1e999", b"_", b"[", b"{}", b"null"),
    *(b"99999999999999999999", b"\xc3\x28", b"\xef\xbb\xbf", b"|", b"PK\x01\x02", b"F64", b"I8", b"shape", b"9" * 5000),
)


@st.composite
def damages(draw):
    """Function that damages valid bytes."""
    edits = draw(
        st.lists(
            st.tuples(
                st.sampled_from(("flip", "set", "insert", "cut", "drop", "copy")),
                st.floats(0, 1, exclude_max=True),
                st.floats(0, 1, exclude_max=True),
                st.integers(0, 255),
                st.sampled_from(TOKENS),
            ),
            min_size=1,
            max_size=4,
        )
    )

    def damage(sound):
        data = bytearray(sound)
        for kind, first, second, value, token in edits:
            at, length = int(first * len(data)), int(second * min(len(data), 64))
            if kind == "flip" and data:
                data[at] ^= 1 << value % 8
            elif kind == "set" and data:
                data[at] = value
            elif kind == "insert":
                data[at:at] = token
            elif kind == "cut":
                del data[at:]
            elif kind == "drop":
                del data[at : at + length]
            elif kind == "copy":
                data[at:at] = data[max(at - length, 0) : at]
        return bytes(data)

    return damage


def read(path, reader):
    """Read a file; returns the refusal, or ""."""
    try:
        reader(path)
    except (UserError, OSError) as refusal:
        return str(refusal)
    return ""


def fuzz(kind, folder, examples):
    name, write, reader = FORMATS[kind]
    path = folder / name
    write(path)
    sound = path.read_bytes()
    assert read(path, reader) == ""

    def check(damage):
        path.write_bytes(damage(sound))
        assert len(read(path, reader).splitlines()) <= 1

    settings(max_examples=examples)(given(damages())(check))()


@pytest.mark.parametrize("kind", FORMATS)
def test_a_damaged_file(kind, tmp_path):
    fuzz(kind, tmp_path, 40)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
def test_many_damaged_files(kind, tmp_path):
    fuzz(kind, tmp_path, EXAMPLES)


@pytest.mark.parametrize(("key", "value"), [("input", "4xa"), ("scale", "inf"), ("scale", "x"), ("seed", "-1")])
def test_metadata_of_a_run_that_says_nothing(tmp_path, key, value):
    save_state(tmp_path / "a.safetensors", {}, {"layout": LAYOUT, key: value}, force=True)
    assert "is a damaged run file" in read(tmp_path / "a.safetensors", Run.load)


@pytest.mark.parametrize(
    ("line", "said"), [("9" * 5000 + ",good", "line 3: '9999"), ('0,"' + "x" * 200_000, "line 3: a quote")]
)
def test_a_sentence_beyond_what_python_reads(tmp_path, line, said):
    name, write, reader = FORMATS["CSV of sentences"]
    write(tmp_path / name)
    (tmp_path / name).write_text(f"0,bad\n1,good\n{line}\n")
    assert said in read(tmp_path / name, reader)
