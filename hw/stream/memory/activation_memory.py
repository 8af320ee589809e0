"""RTL of `activation_memory`: narrow memories, a wide memory, and a queue of results for each reader."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import memory, wiring

from ....golden.block import Field
from ....golden.fixed import Q8_16
from ....golden.stream.memory.activation_memory import READERS, READS_AHEAD, ActivationMemorySpec
from ....golden.stream.norms import Q11_16
from ...ports import elements, layout, members
from ...primitives.fifo import Fifo
from ...primitives.mux_tree import mux_tree
from ...primitives.pipeline import Pipeline
from ...primitives.ram import ram


class ActivationMemory(wiring.Component):
    """Store chunks of activations for one writer and three readers.

    Accepts a chunk a cycle. A reader that is alone gets a result a cycle, `spec.latency` (5) cycles after its read.
    Each reader may have `READS_AHEAD` outstanding reads, independent of the other readers' back-pressure. The narrow
    memories serve one reader a cycle, by priority: operands, keys, rows.
    """

    def __init__(self, spec: ActivationMemorySpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        taken = self._take(m)
        operands, keys, rows = (getattr(self, f"{name}_read").payload for name in READERS)
        # reads and writes both take a cycle to the memory, so a read sees exactly the writes accepted before it
        pipeline = Pipeline(m, {"taken": 0, "address": 1, "memory": 1, "word": 1})
        others = Mux(taken["keys"], keys.address, rows.address)
        chosen = Mux(taken["operands"] & ~operands.wide, operands.address, others)
        narrow_address, wide_address, part, wide = (
            pipeline.place("taken", value, name, reset_less=True)
            for value, name in (
                (chosen, "narrow_address"),
                (operands.address, "wide_address"),
                (operands.part, "part"),
                (operands.wide, "in_wide"),
            )
        )
        memories = [ram(platform, spec.narrow_memory) for _ in range(spec.layout.parts)]
        chunks = []
        for number, storage in enumerate(memories):
            m.submodules[f"narrow{number}"] = storage
            chunks.append(self._read(storage, m, narrow_address.at("address")))
        m.submodules.wide = wide_memory = ram(platform, spec.wide_memory)
        wide_chunk = self._read(wide_memory, m, wide_address.at("address"))
        self._write(m, memories, wide_memory)
        row, operand = (
            Signal(lanes * form.width, name=name, reset_less=True)
            for name, lanes, form in (("row", spec.lanes, Q8_16), ("operand", spec.columns, Q11_16))
        )
        values = elements(mux_tree(part.at("memory"), chunks), Field("value", Q8_16, spec.columns))
        widened = Cat(Cat(value, value[-1].replicate(Q11_16.width - Q8_16.width)) for value in values)
        m.d.sync += [row.eq(Cat(chunks)), operand.eq(Mux(wide.at("memory"), wide_chunk, widened))]
        for name, read, word in zip(READERS, (operands, keys, rows), (operand, row, row), strict=True):
            m.submodules[f"{name}_queue"] = queue = Fifo(layout(spec.streams()[name]), READS_AHEAD)
            wiring.connect(m, queue.o, wiring.flipped(getattr(self, name)))
            m.d.comb += queue.i.valid.eq(pipeline.place("taken", taken[name], f"{name}_taken").at("word"))
            m.d.comb += Value.cast(queue.i.payload.value).eq(word)
            if hasattr(read, "tag"):
                tag = pipeline.place("taken", read.tag, f"{name}_tag", reset_less=True)
                m.d.comb += queue.i.payload.tag.eq(tag.at("word"))
        return m

    def _take(self, m: Module) -> dict[str, Value]:
        """Accept reads with queue space, at most one narrow read a cycle; returns for each reader a flag: accepted."""
        accepted, free = dict[str, Value](), Value.cast(1)
        for name in READERS:
            read, result = getattr(self, f"{name}_read"), getattr(self, name)
            ahead, takes = Signal(range(READS_AHEAD + 1), name=f"{name}_ahead"), Signal(name=f"{name}_takes")
            # timing: readers of lower priority depend on `room`, so it is a register beside the counter
            room, gives = Signal(name=f"{name}_room", init=1), result.valid & result.ready
            m.d.comb += [read.ready.eq(room & free), takes.eq(read.valid & read.ready)]
            m.d.sync += ahead.eq(ahead + takes - gives)
            m.d.sync += room.eq(gives | ~((ahead == READS_AHEAD) | (takes & (ahead == READS_AHEAD - 1))))
            narrow = ~read.payload.wide if name == "operands" else 1
            free &= ~(read.valid & room & narrow)
            accepted[name] = takes
        return accepted

    def _write(self, m: Module, narrow: list[memory.Memory], wide: memory.Memory) -> None:
        word, values = self.write.payload, self.spec.streams()["write"].fields[-1]
        address, chunk = (
            Signal(len(Value.cast(field)), name=name, reset_less=True)
            for field, name in ((word.address, "write_address"), (word.value, "write_chunk"))
        )
        m.d.comb += self.write.ready.eq(1)
        m.d.sync += [address.eq(word.address), chunk.eq(word.value)]
        lower = Cat(value[: Q8_16.width] for value in elements(chunk, values))
        chosen = [~word.wide & (word.part == number) for number in range(len(narrow))]
        for number, (storage, selected) in enumerate(zip((*narrow, wide), (*chosen, word.wide), strict=True)):
            port, writes = storage.write_port(), Signal(name=f"writes{number}")
            m.d.sync += writes.eq(self.write.valid & selected)
            m.d.comb += [port.addr.eq(address), port.data.eq(chunk if storage is wide else lower), port.en.eq(writes)]

    @staticmethod
    def _read(storage: memory.Memory, m: Module, address: Value) -> Value:
        """Read data of a memory; a write in the same cycle is not yet visible."""
        port = storage.read_port()
        m.d.comb += port.addr.eq(address)
        return port.data
