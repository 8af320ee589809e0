"""Program of the streaming core: a transformer as a list of instructions in DRAM, made for a core's size.

An image is a header and the instructions. The header has digests of the weight stream and of the program itself. Checks
match the core's checks at `load`, with the same reasons.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ...axi.bus import BEAT
from ...axi.regions import Bytes
from ...errors import UserError
from ...fixed import Q8_16, Format
from ...transformer.blocks import (
    Activation,
    Gate,
    Linear,
    Normalisation,
    PoolTokens,
    Positions,
    Residual,
    SelfAttention,
    Transformer,
    UnitLength,
)
from ...transformer.builder import INPUTS
from ..attention import Attention
from ..instruction import (
    ACTIVATIONS,
    INSTRUCTION_BEATS,
    NO_WORD,
    POOLS,
    Instruction,
    Join,
    Kind,
    RowAddress,
    shifted_format,
)
from ..norms import Q11_16, Norm
from ..transformer_model import TransformerModel, everything
from ..values.requantize import FORMATS
from ..words import TensorName
from .core_size import CoreSize
from .layout import Rotation, StreamLayout
from .limits import MOST_FEATURES, Counts, Limits, Reason
from .schedule import Allocation, FusedStep

MAGIC, VERSION = b"FTSP", 3
_FIELDS = struct.Struct("<4s6H8I32s")
_DIGEST = 32
HEADER_BEATS = -(-(_FIELDS.size + _DIGEST) // BEAT)
_KINDS: dict[type, Kind] = {
    Linear: Kind.LINEAR,
    SelfAttention: Kind.ATTENTION,
    Normalisation: Kind.NORM,
    Activation: Kind.ACTIVATION,
    Gate: Kind.GATE,
    Residual: Kind.ADD,
    Positions: Kind.POSITIONS,
    PoolTokens: Kind.POOL,
    UnitLength: Kind.UNIT,
}
_JOINS: dict[type, Join] = {Residual: Join.ADD, Gate: Join.GATE}


class ProgramError(UserError):
    """Refusal of a program by a core, with `Reason` and the operation's number."""

    def __init__(self, reason: Reason, text: str, number: int = 0) -> None:
        super().__init__(text)
        self.reason, self.number = reason, number


@dataclass(frozen=True)
class Program:
    """Instructions, and the numbers common to all.

    Parameters
    ----------
    capacity : int
        Tokens of all sides in the buffers at once: row r of token t is at address ``r * capacity + t``.
    features : int
        Features of an input token.
    inputs : int
        `RowAddress` of the inputs.
    words : int
        Number of perturbation words; of a cut network, those of the first part: 0 if that part is frozen.
    stream_beats, beats : int
        Beats of the weight stream, and of stream and tables together.
    stream : bytes
        SHA-256 of the weight stream.
    behind : int
        Number of perturbation words after a cut.
    """

    size: CoreSize
    capacity: int
    features: int
    inputs: int
    words: int
    stream_beats: int
    beats: int
    stream: bytes
    instructions: tuple[Instruction, ...]
    behind: int = 0

    @property
    def cut(self) -> int:
        """First instruction after a cut; 0 without a cut."""
        return next((number for number, instruction in enumerate(self.instructions) if instruction.part), 0)

    @property
    def image_beats(self) -> int:
        return HEADER_BEATS + len(self.instructions) * INSTRUCTION_BEATS

    def check(self, features: int = MOST_FEATURES) -> None:
        """Check all instructions against the core's limits, with `features` as the core's largest, see `Limits`.

        Raises `ProgramError` with reason and number of the first wrong instruction.
        """
        if not self.instructions:
            raise ProgramError(Reason.EMPTY, "a program has no operations")
        if not 1 <= self.capacity <= self.size.sums:
            raise ProgramError(
                Reason.CAPACITY, f"a program of {self.capacity} tokens at once: the core has 1 to {self.size.sums}"
            )
        counts = Counts(self.capacity, self.words, self.behind, self.stream_beats, self.beats)
        limits = Limits(self.size, counts, features=features)
        final, part = len(self.instructions) - 1, 0
        for number, instruction in enumerate(self.instructions):
            refusal = limits.refusal(instruction)
            if not refusal and instruction.last != (number == final):
                refusal = Reason.LAST, "the logits are those of the last operation"
            if not refusal and (instruction.part < part or self._wrong_end(number, instruction.part)):
                refusal = Reason.CUT, f"it is of part {instruction.part}, with {self.behind} words behind a cut"
            part = instruction.part
            if refusal:
                reason, text = refusal
                raise ProgramError(reason, f"operation {number} of {final + 1}: {text}", number)

    def _wrong_end(self, number: int, part: int) -> bool:
        first, final = number == 0, number == len(self.instructions) - 1
        return (first and part != 0) or (final and part != (self.behind != 0))

    def encode(self) -> Bytes:
        """Checked image.

        Raises `UserError` if an instruction exceeds the core's limits, or a value its field.
        """
        self.check()
        return self.image()

    def image(self) -> Bytes:
        """Image without checks.

        Raises `UserError` if a value exceeds its field.
        """
        size = self.size
        counts = VERSION, size.lanes, size.columns, size.sums, self.capacity, len(self.instructions)
        wide = self.features, self.inputs, self.words, self.stream_beats, self.beats, size.rows, size.wide_rows
        head = _FIELDS.pack(MAGIC, *counts, *wide, self.behind, self.stream)
        body = b"".join(instruction.encode() for instruction in self.instructions)
        header = (head + hashlib.sha256(head + body).digest()).ljust(HEADER_BEATS * BEAT, b"\0")
        return np.frombuffer(header + body, np.uint8)


def decode_program(image: Bytes, size: CoreSize) -> Program:
    """Program of an image, with the core's checks, and a check of the program's digest, which a core ignores.

    Raises `UserError` if the image is invalid, truncated or changed, made for another version or core, or has an
    operation beyond the limits.
    """
    program = read_program(image, size)
    data = image.tobytes()
    stored = data[_FIELDS.size : _FIELDS.size + _DIGEST]
    if hashlib.sha256(data[: _FIELDS.size] + data[HEADER_BEATS * BEAT :]).digest() != stored:
        raise UserError("a program's contents are not those of its digest: it was changed")
    program.check()
    return program


def read_program(image: Bytes, size: CoreSize) -> Program:
    """Program of an image; operations are not checked.

    Raises `ProgramError` if the image is invalid or truncated, or made for another version or core.
    """
    data = image.tobytes()
    if len(data) < HEADER_BEATS * BEAT or not data.startswith(MAGIC):
        raise ProgramError(Reason.MAGIC, "this is no program")
    _, version, *numbers, stream = _FIELDS.unpack(data[: _FIELDS.size])
    lanes, columns, sums, capacity, count, features, inputs, words, stream_beats, beats, rows, wide_rows = numbers[:-1]
    if version != VERSION:
        raise ProgramError(Reason.VERSION, f"a program of version {version} is not read, {VERSION} is")
    made = {"lanes": lanes, "columns": columns, "sums": sums, "rows": rows, "wide_rows": wide_rows}
    if other := [f"{name} = {value}" for name, value in made.items() if getattr(size, name) != value]:
        expected = ", ".join(f"{name} = {getattr(size, name)}" for name in made)
        raise ProgramError(Reason.CORE, f"a program for a core of {', '.join(other)} is not one for {expected}")
    body = data[HEADER_BEATS * BEAT :]
    step = INSTRUCTION_BEATS * BEAT
    if len(body) != count * step:
        text = f"a program of {count} operations has {len(body) / step:g}: it is cut short, or too long"
        raise ProgramError(Reason.LENGTH, text)
    instructions = tuple(Instruction.decode(body[start : start + step]) for start in range(0, len(body), step))
    return Program(size, capacity, features, inputs, words, stream_beats, beats, stream, instructions, numbers[-1])


def program_of(layout: StreamLayout, stream: bytes, tuned: Callable[[TensorName], bool] = everything) -> Program:
    """Program of a transformer for the core of a layout.

    `stream` is `layout.digest` of the stream's image without header. `tuned` is the predicate of perturbed tensors.
    Raises `UserError` if the program does not fit the core, with the operation's number and reason, or if nothing is
    tuned after a cut.
    """
    size, schedule = layout.size, layout.schedule
    _check_rotations(layout.transformer.network)
    capacity = min(size.rows // schedule.rows, size.wide_rows // schedule.wide_rows, size.sums)
    if not capacity:
        raise UserError(
            f"{layout.transformer.network.name} needs {schedule.rows} rows of activations and {schedule.wide_rows} of "
            f"sums for a token; the core has {size.rows} and {size.wide_rows}"
        )
    words, first_words, behind = _words(layout, tuned)
    encoder = _Instructions(layout, first_words)
    instructions = tuple(encoder.of(step) for step in schedule.steps)
    inputs = _buffer(schedule.places[INPUTS])
    counts = words, layout.stream_beats, layout.beats
    features = layout.transformer.network.features
    program = Program(size, capacity, features, inputs, *counts, stream, instructions, behind)
    program.check()
    return program


def _words(layout: StreamLayout, tuned: Callable[[TensorName], bool]) -> tuple[int, dict[TensorName, int], int]:
    """Number of words before a cut, first word of each tuned tensor in its part, number of words after a cut."""
    size, cut = layout.size, layout.cut
    whole = TransformerModel(
        layout.transformer, {}, tuned=tuned, sensitive=layout.sensitive, lanes=size.lanes, columns=size.columns
    )
    if not cut:
        parts = [whole]
    else:
        parts = [replace(whole, last=cut), replace(whole, first=cut)]
        if not any(name[0] < cut for name in whole.order.places):
            del parts[0]
    first = {name: place.start for part in parts for name, place in part.order.places.items() if place}
    counts = [part.words for part in parts]
    return (counts[0] if not cut or len(parts) > 1 else 0), first, counts[-1] if cut else 0


def _check_rotations(network: Transformer) -> None:
    """Refuse queries and keys that another operation also reads: attention rotates them in place."""
    for number, operation in enumerate(network.operations):
        if isinstance(operation, SelfAttention) and operation.rotary_base is not None:
            for name, turned in zip(("queries", "keys"), network.reads[number], strict=False):
                readers = [reader for reader, reads in enumerate(network.reads) for read in reads if read == turned]
                if len(readers) > 1:
                    others = ", ".join(network.titles[reader] for reader in readers)
                    raise network.error(number, f"turns its {name} where they lie, and they are read by {others}")


def _buffer(place: Allocation) -> int:
    return RowAddress(place.wide, place.first).bits


@dataclass(frozen=True)
class _Instructions:
    """Instructions of steps; `words` has the first word of each tuned tensor."""

    layout: StreamLayout
    words: Mapping[TensorName, int]

    def of(self, step: FusedStep) -> Instruction:
        network, places = self.layout.transformer.network, self.layout.schedule.places
        operation = network.operations[step.number]
        reads = [_buffer(places[read]) for read in step.reads]
        values = dict(zip(("source", "second", "third"), reads, strict=False))
        values |= dict(zip(("source_shift", "second_shift", "third_shift"), map(self._shift, step.reads), strict=False))
        values |= {"result_shift": self._shift(step.result)}
        features, _ = network.shapes[step.result]
        values |= {"number": step.number, "inputs": network.inputs(step.number), "outputs": features}
        values |= {"destination": _buffer(places[step.result])}
        values |= {"last": int(step.result == len(network.operations) - 1)}
        values |= {"part": int(0 < self.layout.cut <= step.number)}
        if step.other is not None:
            values |= {"other": _buffer(places[step.other]), "other_shift": self._shift(step.other)}
        return Instruction(_KINDS[type(operation)], **values | self._tensors(step) | self._own(step))

    def _shift(self, value: int) -> int:
        """Number of fraction bits that a value lacks against its base format."""
        form = Q8_16 if value == INPUTS else self.layout.transformer.formats[value]
        return _base(form).fraction - form.fraction

    def _tensors(self, step: FusedStep) -> dict[str, int]:
        layout, number, values = self.layout, step.number, dict[str, int]()
        kinds = [kind for kind in ("bias", "factor", "weight") if (number, kind) in layout.places]
        if kinds:
            values |= {"beat": layout.places[number, kinds[0]].start, "biased": int("bias" in kinds)}
            values |= {"fraction": layout.transformer.format_of((number, kinds[-1])).fraction}
            values |= {"coded": int((number, "weight") in layout.coded)}
            values |= {"word": self.words.get((number, kinds[-1]), NO_WORD)}
            values |= {"bias_word": self.words.get((number, "bias"), NO_WORD)}
        if place := layout.corrections.get((number, "weight")):
            values |= {"corrections": len(layout.sensitive[number, "weight"]), "correction_beat": place.start}
        if (name := (number, "position")) in layout.places:
            rows = layout.transformer.network.parameter_shapes[name][0]
            values |= {"table": layout.places[name].start, "positions": rows}
            values |= {"position_word": self.words.get(name, NO_WORD)}
        return values

    def _own(self, step: FusedStep) -> dict[str, int]:
        network = self.layout.transformer.network
        match operation := network.operations[step.number]:
            case Linear():
                values = {"form": FORMATS.index(_base(self.layout.transformer.formats[step.number]))}
                values |= {"shift": self._shift(step.number)}
                if step.activation is not None:
                    values |= {"activation": _activation(network.operations[step.activation])}
                    values |= {"passed_shift": self._shift(step.activation)}
                if step.joined is not None:
                    values["join"] = _JOINS[type(network.operations[step.joined])]
                return values
            case SelfAttention():
                factor, fraction = Attention(operation.width, operation.scale).factor
                values = {"heads": operation.heads, "key_heads": operation.key_heads, "width": operation.width}
                values |= {"causal": int(operation.causal), "factor": factor, "factor_fraction": fraction}
                if operation.rotary_base is not None:
                    place = self.layout.rotations[Rotation(operation.width, operation.rotary_base)]
                    values |= {"rotary": 1, "table": place.start}
                return values
            case Normalisation():
                form = shifted_format(Q11_16, self._shift(step.reads[0]))
                norm = Norm(network.inputs(step.number), operation.eps, operation.centred, form)
                factor, fraction = norm.share
                shared = {"factor": factor, "factor_fraction": fraction, "least": norm.least}
                return shared | {"centred": int(operation.centred)}
            case Activation():
                return {"activation": _activation(operation)}
            case PoolTokens():
                return {"pool": POOLS.index(operation.kind)}
            case _:
                return {}


def _base(form: Format) -> Format:
    return next(base for base in FORMATS if base.width == form.width)


def _activation(operation: object) -> int:
    assert isinstance(operation, Activation)
    return 1 + ACTIVATIONS.index(operation.kind)
