"""Weight memory: words of parameters as wide as the array, written by the beat or by the word."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ....golden.memories.plan import MemoryShape
from ...primitives.ram import ram
from ...primitives.registers import replicas
from ..interfaces import BEAT_BITS, PARAMETER

_BEATS_AN_ADDRESS = 8
"""Beats of a word that share an address register."""


class WeightMemory(wiring.Component):
    """Memories of parameter words with registered reads.

    Either a memory a beat, written individually, or a memory a part of a word, written with the part's last beat;
    earlier beats wait in registers.

    Parameters
    ----------
    planned : tuple of MemoryShape
        The memories, see `golden.nn.array.memories`: equal memories, one a beat, or adjacent parts of a word.
    lanes, columns : int
        Parameters of a word.
    beats_per_write : int
        Adjacent beats of a word that can be written at once; a power of two.
    early : bool
        The address comes a cycle earlier, for replicated registers: memories of LUTs have eight loads for every seven
        bits.

    Attributes
    ----------
    write : In, a bit for each beat
        Beats written in this cycle.
    index : In, range(depth * beats of a word)
        Number of any of these beats.
    beats : In, beats_per_write * 128
        Eight parameters a beat, the first beat lowest.
    address : In, range(depth)
        Word to read.
    word : Out, array of lanes * columns Q4.12
        Word at `address`, one cycle later, or two if `early`; by lane and column.
    """

    def __init__(
        self,
        planned: tuple[MemoryShape, ...],
        lanes: int,
        columns: int,
        beats_per_write: int = 1,
        early: bool = False,
    ) -> None:
        self.planned, self.beats_per_write, self.early = planned, beats_per_write, early
        depth = planned[0].depth
        word = data.ArrayLayout(PARAMETER, lanes * columns)
        self.slices = word.size // BEAT_BITS
        super().__init__(
            {
                "write": In(beats_per_write),
                "index": In(range(depth * self.slices)),
                "beats": In(BEAT_BITS * beats_per_write),
                "address": In(range(depth)),
                "word": Out(word),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        if sum(one.count for one in self.planned) < self.slices:
            self._words(m, platform)
            return m
        low, bits = exact_log2(self.beats_per_write), exact_log2(self.slices)
        parts, addresses = [], self._addresses(m, -(-self.slices // _BEATS_AN_ADDRESS))
        for number in range(self.slices):
            part = ram(platform, self.planned[0])
            m.submodules[f"beat{number}"] = part
            into, port = part.write_port(), part.read_port()
            group, place = divmod(number, self.beats_per_write)
            m.d.comb += [
                into.en.eq(self.write[place] & (self.index[low:bits] == group)),
                into.addr.eq(self.index[bits:]),
                into.data.eq(self.beats.word_select(place, BEAT_BITS)),
                port.addr.eq(addresses[number // _BEATS_AN_ADDRESS]),
            ]
            parts.append(port.data)
        m.d.comb += self.word.eq(Cat(parts))
        return m

    def _addresses(self, m: Module, count: int) -> list[Signal]:
        """Replicated read addresses."""
        if not self.early:
            return [self.address] * count
        registers = replicas(count, "read_address", self.address.shape())
        m.d.sync += [register.eq(self.address) for register in registers]
        return registers

    def _words(self, m: Module, platform: object) -> None:
        """Memories of parts of a word; beats before a part's last wait in registers."""
        bits = exact_log2(self.slices)
        place, row = self.index[:bits], self.index[bits:]
        parts = [part for planned in self.planned for part in [planned] * planned.count]
        beats = [part.width // BEAT_BITS for part in parts]
        begins = [sum(beats[:number]) for number in range(len(parts))]
        waiting = [Signal(BEAT_BITS, name=f"waiting{number}", reset_less=True) for number in range(max(beats) - 1)]
        for number, beat in enumerate(waiting):
            places = [begin + number for begin, count in zip(begins, beats, strict=True) if number < count - 1]
            with m.If(self.write & Cat(place == at for at in places).any()):
                m.d.sync += beat.eq(self.beats)
        address, read = self._addresses(m, 1)[0], list[Value]()
        for number, (part, begin, count) in enumerate(zip(parts, begins, beats, strict=True)):
            m.submodules[f"part{number}"] = words = ram(platform, part)
            into, port = words.write_port(), words.read_port()
            m.d.comb += [
                into.en.eq(self.write & (place == begin + count - 1)),
                into.addr.eq(row),
                into.data.eq(Cat(*waiting[: count - 1], self.beats)),
                port.addr.eq(address),
            ]
            if part.one_address:
                shared = Signal.like(self.address, name=f"row{number}")
                m.d.comb += [shared.eq(Mux(into.en, row, address)), into.addr.eq(shared), port.addr.eq(shared)]
                m.d.comb += port.en.eq(~into.en)
            read.append(port.data)
        m.d.comb += self.word.eq(Cat(read))
