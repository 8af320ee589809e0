"""The contract of a block: parameters, streams, and outputs for given inputs.

A `Spec` is the only place of a block's parameters. The RTL takes its ports from `streams`, the bench and the comparison
of a board's capture take their expectation from `run`, and the command line takes its options from the fields. Random
input and reset timing belong to the block's bench, ``sim/<area>/tb_<block>.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, ClassVar, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from .errors import UserError
from .fixed import Format, Integers
from .memories.plan import Device, MemoryPlan, MemoryShape

Words = dict[str, Integers]
"""Words of a stream: for each field an array (words, lanes)."""
Row = TypeVar("Row")


def joined(parts: Sequence[Mapping[str, Words]]) -> dict[str, Words]:
    """Words of the same streams, by port, concatenated in order; an empty dictionary without any."""
    first = parts[0] if parts else {}
    return {
        port: {name: np.concatenate([part[port][name] for part in parts]) for name in fields}
        for port, fields in first.items()
    }


def words_together(fields: Iterable[Field], parts: Iterable[Words], most: int) -> Words:
    """First `most` words of parts in order, with these fields; empty columns without any part."""
    parts, columns = list(parts), {item.name: np.zeros((0, item.lanes), np.int64) for item in fields}
    return {name: np.concatenate([empty, *(part[name] for part in parts)])[:most] for name, empty in columns.items()}


class Supply:
    """Words of input streams, by port, taken in order."""

    def __init__(self, inputs: Mapping[str, Words]) -> None:
        self._left = dict(inputs)

    def left(self, port: str, most: int | None = None) -> Words:
        """The next words of a stream, at most `most`; they are not taken."""
        return {name: column[:most] for name, column in self._left[port].items()}

    def take(self, counts: Mapping[str, int]) -> dict[str, Words] | None:
        """The next words of each stream; None if one has fewer, and then none is taken."""
        taken = {port: self.left(port, count) for port, count in counts.items()}
        if any(len(column) < counts[port] for port, words in taken.items() for column in words.values()):
            return None
        self._left |= {
            port: {name: column[count:] for name, column in self._left[port].items()} for port, count in counts.items()
        }
        return taken


def rows_of(words: Words, kind: Callable[..., Row]) -> list[Row]:
    """Words of single numbers as named tuples."""
    columns = (words[name][:, 0].tolist() for name in kind._fields)  # type: ignore[attr-defined]
    return [kind(*row) for row in zip(*columns, strict=True)]


@dataclass(frozen=True)
class Field:
    """One field of a stream's payload: `lanes` integers of one format, lane 0 in the lowest bits.

    `doc` is the meaning, for `golden.description`.
    """

    name: str
    format: Format
    lanes: int = 1
    doc: str = field(default="", compare=False)

    @property
    def width(self) -> int:
        """Bits of all lanes together."""
        return self.lanes * self.format.width


def tag_fields(bits: int) -> tuple[Field, ...]:
    """Field of bits that pass through a block with each word unchanged; none for 0 bits.

    Raises `UserError` if `bits` is not in 0 to 32.
    """
    if not 0 <= bits <= 32:
        raise UserError(f"tag = {bits} bits is not in 0 to 32")
    return (Field("tag", Format(bits, 0, signed=False)),) if bits else ()


@dataclass(frozen=True)
class Stream:
    """Port of a block: a stream of words, or a sideband of a stream.

    Parameters
    ----------
    direction : "in" or "out"
        Direction seen from the block.
    fields : tuple of Field
        The payload, the first field in the lowest bits.
    follows : str, optional
        Empty for a stream with its own ready and valid. Otherwise the port is a sideband: plain wires, sampled with
        each transfer of the stream of this name.
    doc : str
        Meaning and timing of a word: the only description of the port, see `golden.description`.
    """

    direction: Literal["in", "out"]
    fields: tuple[Field, ...]
    follows: str = ""
    doc: str = field(default="", compare=False)

    def pack(self, words: Mapping[str, NDArray[np.integer]], names: Iterable[str], align: int = 1) -> list[int]:
        """Integer of each word: the named fields, each lane sign-extended to a multiple of `align` bits."""
        columns = []
        for item in self._named(names):
            values = np.asarray(words[item.name], np.int64).reshape(-1, item.lanes)
            lane = -(-item.format.width // align) * align
            columns.append((values[:, :, None] >> np.arange(lane).clip(max=63)) & 1)
        bits = np.concatenate([column.reshape(len(column), np.prod(column.shape[1:])) for column in columns], axis=1)
        rows = np.packbits(bits.astype(np.uint8), axis=1, bitorder="little")
        return [int.from_bytes(row.tobytes(), "little") for row in rows]

    def unpack(self, integers: Iterable[int], names: Iterable[str], align: int = 1) -> Words:
        """Words of integers, the inverse of `pack`; padding is ignored."""
        chosen = self._named(names)
        lanes = [-(-item.format.width // align) * align for item in chosen]
        size = -(-sum(item.lanes * lane for item, lane in zip(chosen, lanes, strict=True)) // 8)
        rows = np.frombuffer(b"".join(word.to_bytes(size, "little") for word in integers), np.uint8)
        bits = np.unpackbits(rows.reshape(-1, size), axis=1, bitorder="little").astype(np.int64)
        words, offset = {}, 0
        for item, lane in zip(chosen, lanes, strict=True):
            block = bits[:, offset : offset + item.lanes * lane].reshape(-1, item.lanes, lane)
            weights = np.int64(1) << np.arange(item.format.width)
            if item.format.signed:
                weights[-1] = -weights[-1]
            words[item.name] = block[:, :, : item.format.width] @ weights
            offset += item.lanes * lane
        return words

    def _named(self, names: Iterable[str]) -> list[Field]:
        by_name = {item.name: item for item in self.fields}
        return [by_name[name] for name in names]


def described(
    streams: Mapping[str, Stream], fields: Mapping[str, str] | None = None, /, **ports: str
) -> dict[str, Stream]:
    """Streams with the texts of `ports`, and with fields described by `fields`, keyed ``port.field``."""
    texts = fields or {}
    return {
        name: replace(
            port,
            doc=ports.get(name, port.doc),
            fields=tuple(replace(item, doc=texts.get(f"{name}.{item.name}", item.doc)) for item in port.fields),
        )
        for name, port in streams.items()
    }


@dataclass(frozen=True, kw_only=True)
class Spec(ABC):
    """Parameters and integer model of a block; subclasses are frozen dataclasses.

    The constructor refuses wrong parameters with a `UserError`.
    """

    name: ClassVar[str]
    """Name of the block in golden, hw, sim and docs."""
    summary: ClassVar[str]
    """One line for ``fabtune list``."""
    core: ClassVar[bool] = False
    """True for RTL with a core's ports: AXI4-Stream names, ``aclk``, ``aresetn``."""
    buses: ClassVar[dict[str, str]] = {}
    """AXI buses of a core: port of the component, and prefix of its wires; two ports may share a prefix."""
    wires: ClassVar[tuple[str, ...]] = ()
    """Names of a core's other outputs."""
    input_wires: ClassVar[tuple[str, ...]] = ()
    """Names of a core's other inputs."""
    reset_cycles: ClassVar[int] = 1
    """Shortest active reset, in cycles."""
    presets: ClassVar[dict[str, dict[str, object]]] = {}
    """Settings for ``--preset``: by name, the values of (dotted) fields."""

    def __post_init__(self) -> None:
        """Check values of `Literal` fields; subclasses add their own checks."""
        for name, hint in get_type_hints(type(self)).items():
            if get_origin(hint) is Literal and getattr(self, name) not in get_args(hint):
                raise UserError(f"{name} = {getattr(self, name)!r} is not one of {', '.join(get_args(hint))}")

    @property
    def bus_parameters(self) -> Mapping[str, Mapping[str, int]]:
        """Properties of a core's AXI buses that are invisible in the pins, by prefix, with Vivado's names."""
        return {}

    @classmethod
    def area(cls) -> str:
        """Area of the spec's module, also of its page: ``rng`` of `golden.rng.urng`, ``cores``."""
        return cls._place()[2].partition(".")[0]

    @classmethod
    def part(cls, house: str, module: str, name: str) -> Any:
        """Object of the block in another house, "hw", "sim" or "boards", found by name; None if missing.

        A block that is derived from a named one has an RTL and a golden model of its own, and inherits what it lacks in
        "sim" and "boards": bench, self-test, host driver.

        Parameters
        ----------
        module : str
            Module in the block's folder there: ``tb_{name}`` of `urng` is ``sim/rng/tb_urng.py``, of a core
            ``sim/cores/CORE/tb_CORE.py``. A spec outside a package ``golden`` has everything in its own module.
        name : str
            Function or class: RTL, bench, a core's jobs.
        """
        named = cls._named()
        package, golden, room = cls._place()
        place = f"{package}.{house}.{room}.{module.format(name=named.name)}" if golden else named.__module__
        try:
            part = getattr(import_module(place), name, None)
        except ModuleNotFoundError as missing:
            if not missing.name or not place.startswith(missing.name):
                raise
            part = None
        ancestor = named.__base__
        if part is None and house in ("sim", "boards") and hasattr(ancestor, "name"):
            part = cast(type[Spec], ancestor).part(house, module, name)
        return part

    @classmethod
    def _named(cls) -> type[Spec]:
        """Class that names the block; derived classes share its parts."""
        return next((kind for kind in cls.__mro__ if "name" in vars(kind)), cls)

    @classmethod
    def _place(cls) -> tuple[str, str, str]:
        """Package of the spec's module, split at ``golden``: before, itself, folder inside."""
        return cls._named().__module__.rpartition(".")[0].partition(".golden.")

    @property
    def latency(self) -> int:
        """Cycles from an input's transfer, or for a source from reset, to its output; then one word a cycle."""
        return 0

    @abstractmethod
    def streams(self) -> dict[str, Stream]:
        """Streams of the block by port name."""

    @abstractmethod
    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Output of the block after reset for these inputs, at most `words` words a stream."""

    def roms(self) -> dict[str, tuple[list[int], int]]:
        """Contents and word width in bits of each memory that the RTL initialises."""
        return {}

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        """Memories of the RTL that may use RAM blocks."""
        return ()

    def memory_plan(self, device: Device) -> MemoryPlan:
        """Kinds of the memories on a device."""
        return MemoryPlan(device, self.memories)

    def documents(self) -> dict[str, str]:
        """Files for a user besides the Verilog: text by file name."""
        return {}


@dataclass(frozen=True, kw_only=True)
class BusSpec(Spec):
    """Spec of a core with buses and wires, without streams."""

    core: ClassVar[bool] = True

    def streams(self) -> dict[str, Stream]:
        return {}

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Raise `UserError`: a core without streams cannot run on words."""
        raise UserError(f"{self.name} has no streams to capture: use fabtune verify {self.name}")


def last_flags(lengths: list[int]) -> Integers:
    """Flags `last` of packets with these lengths: (words, 1)."""
    flags = np.zeros((sum(lengths), 1), np.int64)
    flags[np.cumsum(lengths) - 1] = 1
    return flags


def packets_of(last: Integers) -> list[tuple[int, int]]:
    """First and end index of each packet, from the flags `last`, (words, 1); an incomplete last packet is ignored."""
    ends = (np.flatnonzero(last[:, 0]) + 1).tolist()
    return list(zip([0, *ends], ends, strict=False))
