"""Parse third-party captures (NPZ, CSV, readmemh) into integers.

A capture lists the words on a block's wires, one word per transfer. Any other content is an error that names file and
line or array: nothing is guessed or padded.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...golden.block import Field, Spec, Stream, Words
from ...golden.datasets.npz import names_of, read_arrays
from ...golden.errors import UserError
from ...golden.files import lines_of, read_text
from ...hw.top import Port
from .table import Table

_CHUNK = 4096
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
"""A comment in a ``$readmemh`` file; it separates words."""


def read_capture(
    path: Path, spec: Spec, ports: dict[str, Port], radices: Mapping[str, str] | None = None
) -> dict[str, Words]:
    """Read a capture; the file extension selects the format.

    Parameters
    ----------
    path : Path
        ``.npz``: integer arrays (words, lanes), or (words,) for one lane, under keys ``stream.field`` such as
        ``o.number``. ``.csv``: a column per wire, as exported by Vivado's logic analyser; with a column for a stream's
        valid or ready, only rows with 1 there are words; see `Table` for radices. ``.hex``, ``.mem``, ``.txt``:
        hexadecimal words as for ``$readmemh``: of the only single-wire output, or of `o` if there are several.
    ports : dict of str to Port
        Wires of the block's streams, from `Emitted.ports`.
    radices : mapping of str to str, optional
        Radices of a ``.csv`` without a radix row, see `Table`.

    Returns
    -------
    dict of str to Words
        Captured streams with all their fields; at least one output with at least one word.

    Raises
    ------
    UserError
        If the file is not a capture of this block: with file, line or array, and a remedy.
    """
    path = Path(path)
    if spec.buses:
        raise UserError(
            f"{spec.name} works on a memory or a host behind AXI, which a capture of its streams has not: "
            f"use fabtune verify {spec.name}"
        )
    if not path.is_file():
        raise UserError(f"no file {str(path)!r}: give the path of a capture")
    kind = path.suffix.lower()
    if radices and kind != ".csv":
        raise UserError(f"--radix is for a .csv without a row of radices, not for {path}: leave it out")
    try:
        if kind == ".npz":
            capture = _from_npz(path, spec)
        elif kind == ".csv":
            capture = _from_csv(Table(path, radices), spec, ports)
        elif kind in (".hex", ".mem", ".txt"):
            capture = _from_mem(path, spec, ports)
        else:
            raise UserError(f"{path}: no capture ends in {kind!r}: write .npz, .csv, .hex, .mem or .txt")
    except OSError as problem:
        raise UserError(f"{path}: cannot be read: {problem.strerror or problem}") from None
    return capture


def _from_npz(path: Path, spec: Spec) -> dict[str, Words]:
    capture = {}
    wanted = {name: [f"{name}.{item.name}" for item in stream.fields] for name, stream in spec.streams().items()}
    arrays, present_names = read_arrays(path, (), itertools.chain(*wanted.values())), names_of(path)
    for name, stream in spec.streams().items():
        present = [key for key in wanted[name] if key in arrays]
        if not present:
            continue
        if missing := [key for key in wanted[name] if key not in arrays]:
            raise UserError(f"{path}: {', '.join(present)} without {', '.join(missing)}: a stream needs all its fields")
        words = {
            item.name: _array(f"{path}: {name}.{item.name}", arrays[f"{name}.{item.name}"], item)
            for item in stream.fields
        }
        counts = {f"{name}.{field}": len(column) for field, column in words.items()}
        if len(set(counts.values())) > 1:
            raise UserError(f"{path}: fields of one stream differ in their words, {counts}: capture them together")
        capture[name] = words
    outputs = [key for name, stream in spec.streams().items() if stream.direction == "out" for key in wanted[name]]
    return _with_output(capture, spec, str(path), "array", outputs, sorted(present_names))


def _array(where: str, array: NDArray[Any], item: Field) -> NDArray[np.int64]:
    if array.dtype.kind not in "iu":
        raise UserError(f"{where} has dtype {array.dtype}: write the integers themselves, not their values")
    if array.ndim == 1 and item.lanes == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] != item.lanes:
        raise UserError(f"{where} has shape {array.shape}: write (words, {item.lanes}), one column a lane")
    if not len(array):
        raise UserError(f"{where} holds no words: capture some")
    wrong = np.argwhere((array < item.format.minimum) | (array > item.format.maximum))
    if len(wrong):
        word, lane = wrong[0].tolist()
        raise UserError(
            f"{where}: word {word}, lane {lane} is {array[word, lane]}, not in {item.format.minimum} to "
            f"{item.format.maximum} ({item.format}): write numbers with their sign, not bit patterns"
        )
    return array.astype(np.int64)


def _from_csv(table: Table, spec: Spec, ports: dict[str, Port]) -> dict[str, Words]:
    streams = spec.streams()
    capture, idle = {}, []
    for name, stream in streams.items():
        port = ports[name]
        present = [wire.name for wire in port.wires if wire.name in table.columns]
        if not present:
            continue
        if missing := [wire.name for wire in port.wires if wire.name not in table.columns]:
            raise UserError(
                f"{table.where()}: {', '.join(present)} without {', '.join(missing)}: a stream needs all its "
                f"wires; the columns are {table.listed}"
            )
        # a sideband uses the handshake of its stream
        leader = ports[stream.follows] if stream.follows else port
        handshake = [wire for wire in (leader.valid, leader.ready) if wire in table.columns]
        rows = table.rows_with(handshake)
        if not rows:
            idle += [" and ".join(handshake)] if stream.direction == "out" else []
            continue
        words: Words = {}
        for wire in port.wires:
            integers = table.integers(wire.name, wire.width(stream), rows)
            words |= _unpack(stream, integers, wire.fields, wire.align)
        capture[name] = words
    if idle and not any(streams[name].direction == "out" for name in capture):
        raise UserError(
            f"{table.path}: {idle[0]} never 1 in one row: trigger on a transfer, and capture while the block runs"
        )
    outputs = [wire.name for name, s in streams.items() if s.direction == "out" for wire in ports[name].wires]
    return _with_output(capture, spec, table.where(), "column", outputs, [table.listed])


def _from_mem(path: Path, spec: Spec, ports: dict[str, Port]) -> dict[str, Words]:
    streams = spec.streams()
    candidates = [
        name
        for name, stream in streams.items()
        if stream.direction == "out" and not stream.follows and len(ports[name].wires) == 1
    ]
    if len(candidates) > 1 and "o" in candidates:
        candidates = ["o"]
    if len(candidates) != 1:
        raise UserError(f"{path}: {spec.name} has no single output with a single wire: write .csv or .npz")
    stream, wire = streams[candidates[0]], ports[candidates[0]].wires[0]
    integers = list(_mem_words(path, wire.width(stream)))
    if not integers:
        raise UserError(f"{path}: holds no words: write one hexadecimal word a line")
    return {candidates[0]: _unpack(stream, integers, wire.fields, wire.align)}


def _mem_words(path: Path, width: int) -> Iterator[int]:
    count = 0
    # comments may have any encoding
    text = read_text(path, errors="replace")
    text = _COMMENT.sub(lambda match: " " + "\n" * (len(lines_of(f"{match[0]} ")) - 1), text)
    for number, line in enumerate(lines_of(text), 1):
        if "/*" in line:
            raise UserError(f"{path}: line {number}: a comment is left open: close it with */")
        for token in line.split():
            where = f"{path}: line {number}: {token[:80]!r}"
            if re.fullmatch(r"@[0-9a-fA-F_]+", token):
                if int(token[1:].replace("_", "") or "0", 16) != count:
                    raise UserError(
                        f"{where} leaves a gap or goes back, word {count} is next: dump from 0 without gaps"
                    )
                continue
            digits = re.fullmatch(r"(?:0[xX])?([0-9a-fA-F][0-9a-fA-F_]*)", token)
            if not digits:
                if re.fullmatch(r"[0-9a-fA-F_]*[xXzZ?][0-9a-fA-F_xXzZ?]*", token):
                    raise UserError(f"{where} is not known or not driven: capture after reset, and only valid words")
                raise UserError(f"{where} is not a hexadecimal word: write digits 0-9 and a-f")
            value = int(digits[1].replace("_", ""), 16)
            if value >> width:
                raise UserError(f"{where} is wider than the wire, which has {width} bits: is it from another block?")
            count += 1
            yield value


def _unpack(stream: Stream, integers: list[int], fields: tuple[str, ...], align: int) -> Words:
    # in chunks: `unpack` needs 8 bytes per bit
    pieces = [stream.unpack(integers[i : i + _CHUNK], fields, align) for i in range(0, len(integers), _CHUNK)]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in fields}


def _with_output(
    capture: dict[str, Words], spec: Spec, where: str, what: str, wanted: list[str], present: list[str]
) -> dict[str, Words]:
    if not any(stream.direction == "out" and name in capture for name, stream in spec.streams().items()):
        raise UserError(
            f"{where}: no {what} of an output of {spec.name}: need {', '.join(wanted)}; "
            f"there are {', '.join(present) or 'none'}"
        )
    return capture
