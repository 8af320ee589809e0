"""Stream of a transformer's frozen tensors in DRAM: records in order of use, read sequentially.

A matrix has a record for each 64 inputs of a tile's outputs: first the scales, then codes in the parameter order of a
word. With 16 columns a beat holds two lanes, one for each cascade of a column. Each dequantiser uses one scale for a
whole record; because the scales come first, codes are dequantised on arrival. Biases and norm factors are records of 4
bytes a value.

Tables follow the stream. A step reads as many rows of positions and rotations as its longest sentence has tokens.
Sensitive weights have the order of the codes; the core merges the two.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...axi.bus import BEAT
from ...axi.regions import Bytes
from ...errors import UserError
from ...fixed import Integers
from ...nf4.codec import LEVELS
from ...transformer.blocks import SelfAttention
from ..attention import rotations
from ..forward import IntegerTransformer, TransformerIntegers
from ..frozen_base import BLOCK, Nf4Weights
from ..words import TensorName, tile_places
from .core_size import DEFAULT_SIZE, CoreSize
from .schedule import TransformerSchedule

MAGIC, VERSION = b"FTSW", 1
_HEADER = struct.Struct("<4sHHHHI32s")
HEADER_BEATS = 3
_ZERO = int(np.flatnonzero(LEVELS == 0)[0])
"""Code of a last record's padding."""

StreamTensors = Mapping[TensorName, Nf4Weights | Integers]
"""Matrices in NF4 or 18 bits, and all other tensors as integers."""


class Rotation(NamedTuple):
    """Parameters of a rotation table, shared by attentions: features of a head, base of the wavelengths."""

    width: int
    base: float


@dataclass(frozen=True)
class StreamLayout:
    """Addresses of all tensors in the stream.

    Raises `UserError` if tiles do not divide a block of inputs, an NF4 name is no matrix, or sensitive indices do not
    ascend in an NF4 matrix.

    Parameters
    ----------
    coded : frozenset of (int, str)
        Matrices in NF4; other matrices have 4 bytes per weight.
    sensitive : mapping of (int, str) to array of int
        Ascending flat indices of a matrix's 18-bit weights; their codes are 0.
    cut : int
        The network is cut before this operation; 0 without a cut.
    """

    transformer: IntegerTransformer
    coded: frozenset[TensorName]
    size: CoreSize = DEFAULT_SIZE
    sensitive: Mapping[TensorName, Integers] = field(default_factory=dict)
    cut: int = 0

    def __post_init__(self) -> None:
        if BLOCK % self.size.lanes or self.size.lanes * self.size.columns % (2 * BEAT):
            raise UserError(
                f"tiles of {self.size.lanes} x {self.size.columns} do not fill records of {BLOCK} inputs in whole beats"
            )
        shapes = self.transformer.network.parameter_shapes
        if extra := sorted(name for name in self.coded if name not in shapes or name[1] != "weight"):
            raise UserError(f"{self.transformer.network.name} has no matrix {extra[0]}")
        for name, places in self.sensitive.items():
            if name not in self.coded:
                raise self.transformer.network.error(
                    name[0], f"has sensitive weights, and a {name[1]} that is not in NF4"
                )
            beyond = len(places) and not 0 <= places[0] <= places[-1] < prod(shapes[name])
            if beyond or (np.diff(places) <= 0).any():
                raise self.transformer.network.error(
                    name[0], f"has sensitive weights that do not ascend in {shapes[name]}"
                )

    # -- addresses in beats, counted after the header ------------------------------------------------------------------

    @cached_property
    def schedule(self) -> TransformerSchedule:
        return TransformerSchedule(self.transformer, self.size.lanes, self.size.columns, self.cut)

    @cached_property
    def places(self) -> dict[TensorName, range]:
        """Beats of each tensor: the stream in order of use, biases before matrices; then the tables of positions."""
        shapes = self.transformer.network.parameter_shapes
        stream = [(step.number, kind) for step in self.schedule.steps for kind in ("bias", "factor", "weight")]
        names = [name for name in stream if name in shapes]
        tables = [name for name in shapes if name[1] == "position"]
        beats_of, first = {}, 0
        for name in [*names, *tables]:
            beats = self._beats(name)
            beats_of[name] = range(first, first + beats)
            first += beats
        return beats_of

    @cached_property
    def rotations(self) -> dict[Rotation, range]:
        """Beats of each rotation table: a row of cosines and sines for each token of the core's `sums`."""
        first = max((place.stop for place in self.places.values()), default=0)
        beats_of: dict[Rotation, range] = {}
        for operation in self.transformer.network.operations:
            if isinstance(operation, SelfAttention) and operation.rotary_base is not None:
                rotation = Rotation(operation.width, operation.rotary_base)
                if rotation not in beats_of:
                    beats = self.size.sums * vector_beats(operation.width)
                    beats_of[rotation] = range(first, first + beats)
                    first += beats
        return beats_of

    @cached_property
    def corrections(self) -> dict[TensorName, range]:
        """Beats of each matrix's sensitive weights, 8 bytes each: address in the word stream, value."""
        tables = (*self.places.values(), *self.rotations.values())
        first, beats_of = max((place.stop for place in tables), default=0), {}
        for name in (name for name in self.places if len(self.sensitive.get(name, ()))):
            beats = -(-8 * len(self.sensitive[name]) // BEAT)
            beats_of[name] = range(first, first + beats)
            first += beats
        return beats_of

    @property
    def stream_beats(self) -> int:
        return max((place.stop for name, place in self.places.items() if name[1] != "position"), default=0)

    @property
    def beats(self) -> int:
        tables = (*self.rotations.values(), *self.corrections.values())
        return max(place.stop for place in (*self.places.values(), *tables))

    def _beats(self, name: TensorName) -> int:
        shape = self.transformer.network.parameter_shapes[name]
        if len(shape) == 1:
            return vector_beats(shape[0])
        if name[1] == "position":
            return shape[0] * vector_beats(shape[1])
        return matrix_beats(self.size, shape[0], shape[1], name in self.coded)

    # -- images --------------------------------------------------------------------------------------------------------

    def encode(self, tensors: StreamTensors, exact: TransformerIntegers = MappingProxyType({})) -> Bytes:
        """Image: header with digest, stream, tables. The sensitive weights are taken from `exact`, 18-bit matrices.

        Raises `UserError` if a tensor is missing or has a wrong shape or format.
        """
        image = np.zeros(self.beats * BEAT, np.uint8)
        for name, place in self.places.items():
            image[place.start * BEAT : place.stop * BEAT] = self._encoded(name, tensors.get(name))
        for rotation, place in self.rotations.items():
            turns = np.concatenate(rotations(np.arange(self.size.sums), *rotation), axis=1)
            image[place.start * BEAT : place.stop * BEAT] = _vectors(turns)
        for name, place in self.corrections.items():
            where, places = self._ranked(name)
            entries = np.stack([places, exact[name].reshape(-1)[where]], axis=1)
            image[place.start * BEAT : place.stop * BEAT] = _vectors(entries.reshape(1, -1))
        return self.with_header(image)

    def with_header(self, body: Bytes) -> Bytes:
        header = _HEADER.pack(MAGIC, VERSION, self.size.lanes, self.size.columns, 0, self.beats, digest(body))
        return np.concatenate([np.frombuffer(header, np.uint8), body])

    def decode(self, image: Bytes) -> dict[TensorName, Nf4Weights | Integers]:
        """Tensors of an image.

        Raises `UserError` if the image is invalid, truncated or changed, or made for another version, core or network.
        """
        body = check_image(image, self.size)
        if body.size != self.beats * BEAT:
            raise UserError(f"a stream of {body.size // BEAT} beats is not this network's, which has {self.beats}")
        return {
            name: self._decoded(name, body[place.start * BEAT : place.stop * BEAT])
            for name, place in self.places.items()
        }

    def decode_corrections(self, image: Bytes) -> dict[TensorName, tuple[Integers, Integers]]:
        """Sensitive weights of an image by matrix: addresses in the word stream, values.

        Raises `UserError` like `decode`.
        """
        body, entries_of = check_image(image, self.size), {}
        for name, place in self.corrections.items():
            entries = body[place.start * BEAT : place.stop * BEAT].view("<i4").reshape(-1, 2).astype(np.int64)
            places, values = entries[: len(self.sensitive[name])].T
            entries_of[name] = places, values
        return entries_of

    def _ranked(self, name: TensorName) -> tuple[Integers, Integers]:
        """Sensitive weights of a matrix in stream order: flat indices, addresses in the word stream."""
        shape, places = self.transformer.network.parameter_shapes[name], self.sensitive[name]
        ranks = tile_places(shape, self.size.lanes, self.size.columns).reshape(-1)[places]
        order = np.argsort(ranks)
        return places[order], ranks[order]

    def _encoded(self, name: TensorName, values: Nf4Weights | Integers | None) -> Bytes:
        shape, error = self.transformer.network.parameter_shapes[name], self.transformer.network.error
        integers = values.codes if isinstance(values, Nf4Weights) else values
        if integers is None or integers.shape != shape:
            raise error(name[0], f"has no {name[1]} of {shape}")
        if isinstance(values, Nf4Weights) != (name in self.coded):
            raise error(name[0], f"has a {name[1]} that is {'not ' if name in self.coded else ''}in NF4")
        if isinstance(values, Nf4Weights):
            if values.form != self.transformer.format_of(name):
                raise error(name[0], f"has codes for {values.form}, not {self.transformer.format_of(name)}")
            records, columns = self._records(values.codes, _ZERO), self.size.columns
            scales = np.zeros((len(records) * columns, values.scales.shape[1]), "<u2")
            scales[: shape[0]] = values.scales
            ordered = scales.reshape(len(records), columns, -1).transpose(0, 2, 1)
            ordered = np.pad(ordered, ((0, 0), (0, 0), (0, scale_beats(self.size) * BEAT // 2 - columns)))
            codes = records.reshape(*records.shape[:2], -1).astype(np.uint8)
            packed = codes[..., ::2] | codes[..., 1::2] << 4
            return np.concatenate([np.ascontiguousarray(ordered).view(np.uint8), packed], axis=2).reshape(-1)
        return _vectors(self._records(integers) if name[1] == "weight" else integers)

    def _decoded(self, name: TensorName, body: Bytes) -> Nf4Weights | Integers:
        shape = self.transformer.network.parameter_shapes[name]
        if name[1] != "weight":
            rows = body.view("<i4").reshape(shape[0] if len(shape) == 2 else 1, -1)[:, : shape[-1]]
            return rows.reshape(shape).astype(np.int64)
        groups, blocks, columns = -(-shape[0] // self.size.columns), -(-shape[1] // BLOCK), self.size.columns
        if name not in self.coded:
            return self._matrix(body.view("<i4").reshape(groups, blocks, -1).astype(np.int64), shape)
        records = body.reshape(groups, blocks, -1)
        cut = scale_beats(self.size) * BEAT
        scales = np.ascontiguousarray(records[..., :cut]).view("<u2")[..., :columns].transpose(0, 2, 1)
        packed = records[..., cut:]
        codes = np.stack([packed & 15, packed >> 4], axis=-1).reshape(groups, blocks, -1)
        ordered = scales.reshape(groups * columns, blocks)[: shape[0]].astype(np.int64)
        return Nf4Weights(self._matrix(codes, shape), ordered, self.transformer.format_of(name))

    def _records(self, matrix: NDArray[np.integer], filler: int = 0) -> NDArray[np.integer]:
        """Matrix in tile order: (groups of outputs, blocks of inputs, tiles, lanes, columns)."""
        columns, lanes = self.size.columns, self.size.lanes
        more = -matrix.shape[0] % columns, -matrix.shape[1] % BLOCK
        padded = np.pad(matrix, ((0, more[0]), (0, more[1])), constant_values=filler)
        parts = padded.reshape(-1, columns, padded.shape[1] // BLOCK, BLOCK // lanes, lanes)
        return parts.transpose(0, 2, 3, 4, 1)

    def _matrix(self, records: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        """Inverse of `_records`: (outputs, inputs)."""
        groups, blocks = records.shape[:2]
        parts = records.reshape(groups, blocks, BLOCK // self.size.lanes, self.size.lanes, self.size.columns)
        whole = parts.transpose(0, 4, 1, 2, 3).reshape(groups * self.size.columns, blocks * BLOCK)
        return whole[: shape[0], : shape[1]]


def vector_beats(values: int) -> int:
    return -(-4 * values // BEAT)


def scale_beats(size: CoreSize) -> int:
    """Beats of a record's scales, 2 bytes each."""
    return -(-2 * size.columns // BEAT)


def matrix_beats(size: CoreSize, outputs: int, inputs: int, coded: bool) -> int:
    """Beats of a matrix's records, in NF4 or with 4 bytes per weight."""
    records = -(-outputs // size.columns) * -(-inputs // BLOCK)
    return records * record_beats(size, coded)


def record_beats(size: CoreSize, coded: bool) -> int:
    """Beats of a record, a block of inputs for a tile's outputs, in NF4 or with 4 bytes per weight."""
    weights = BLOCK * size.columns
    return scale_beats(size) + weights // (2 * BEAT) if coded else 4 * weights // BEAT


def digest(image: Bytes) -> bytes:
    return hashlib.sha256(image.tobytes()).digest()


def check_image(image: Bytes, size: CoreSize) -> Bytes:
    """Body of a stream's image, after the header.

    Raises `UserError` if the image is invalid, truncated or changed, or made for another version or core.
    """
    head = image[: HEADER_BEATS * BEAT].tobytes()
    if len(head) < HEADER_BEATS * BEAT or not head.startswith(MAGIC):
        raise UserError("this is no stream of weights")
    _, version, lanes, columns, _, beats, stored = _HEADER.unpack(head)
    if version != VERSION:
        raise UserError(f"a stream of version {version} is not read, {VERSION} is")
    if (lanes, columns) != (size.lanes, size.columns):
        raise UserError(f"a stream for tiles of {lanes} x {columns} is not one for {size.lanes} x {size.columns}")
    body = image[HEADER_BEATS * BEAT :]
    if body.size != beats * BEAT:
        raise UserError(f"a stream of {beats} beats has {body.size / BEAT:g}: it is cut short, or too long")
    if digest(body) != stored:
        raise UserError("a stream's contents are not those of its digest: it was changed")
    return body


def _vectors(values: NDArray[np.integer]) -> Bytes:
    """Rows of values, 4 bytes each, padded to whole beats."""
    rows = values.reshape(-1, values.shape[-1])
    padded = np.pad(rows, ((0, 0), (0, -rows.shape[1] % (BEAT // 4))))
    return np.ascontiguousarray(padded, "<i4").view(np.uint8).reshape(-1)
