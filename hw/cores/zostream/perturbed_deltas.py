"""Perturbed deltas: the generator with the block of deltas and offsets, and the generator's position."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.stream.weights.word_offsets import COUNT, OffsetCommand, WordOffsetsSpec
from ....golden.zo.coefficient import COEFFICIENT
from ...axi.memory_port import BEATS
from ...ports import layout, shape
from ...probe import probe
from ...rng.generators import generator_of
from ...stream.engine.engine_port import REQUEST
from ...stream.weights.word_offsets import WordOffsets
from ...zo.steps.state_loader import StateLoader
from ..shelled_core import Monitor
from .delta_monitor import DeltaMonitor

SHOWN = ("valid", "beat", "data")
"""Members of a `Monitor` for deltas."""


class DeltaCommand(data.StructLayout):
    """Command for rows of deltas, and the generator's action at its last word.

    Attributes
    ----------
    kind : `Kind`
        All but `Kind.OFFSETS`.
    table : 1
        Part of the network: 1 after the cut, otherwise 0.
    factor : signed(27)
        Factor of the perturbation.
    count : 24 bits
        Rows, or skipped words.
    replay, mark : 1
        At the last word, the generator returns to the mark, or sets the mark after this word.
    """

    def __init__(self) -> None:
        numbers = {"factor": shape(COEFFICIENT), "count": COUNT.width}
        super().__init__({"kind": OffsetCommand, "table": 1, **numbers, "replay": 1, "mark": 1})


class PerturbedDeltas(wiring.Component):
    """Runs commands of the trainer, and requests of the engine between commands.

    Attributes
    ----------
    state : In, stream of beats
        State for the generator; loading sets the mark.
    loaded : Out(1)
        The state is loaded; one cycle.
    start, position : In(1), In(32)
        Begin a job with its first perturbation at `position`; one cycle.
    at : Out(32)
        Position of the generator's next word.
    command : In, stream of `DeltaCommand`
        Only while the engine is idle.
    done : Out(1)
        A command has ended; one cycle.
    clipped : Out
        Clipped offsets of the command, with `done`.
    request, offsets : In, Out, streams
        See `EnginePort`.
    first_rows : In
        Rows of the first part; the other part's rows follow in an image.
    load, save : In, Out, streams of beats
        Images of deltas.
    valid, beat, data : Out
        Stored deltas, see `Monitor`.
    """

    def __init__(self, spec: WordOffsetsSpec) -> None:
        self.spec = spec
        self.generator, self.loader, self.offsets_block = (
            generator_of(spec.generator),
            StateLoader(spec.generator),
            WordOffsets(spec),
        )
        streams = spec.streams()
        request = {item.name: shape(item.format) for item in streams["command"].fields if item.name in REQUEST}
        super().__init__(
            {
                "state": In(BEATS),
                "loaded": Out(1),
                "start": In(1),
                "position": In(32),
                "at": Out(32),
                "command": In(stream.Signature(DeltaCommand())),
                "done": Out(1),
                "clipped": Out(shape(spec.clipped_format)),
                "request": In(stream.Signature(data.StructLayout(request))),
                "offsets": Out(stream.Signature(layout(streams["offsets"]))),
                "first_rows": In(range(spec.times + 1)),
                "load": In(BEATS),
                "save": Out(BEATS),
                **{name: Monitor(1).members[name] for name in SHOWN},
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Connect generator and deltas; longer than most, as it is a list of wires."""
        m = Module()
        m.submodules.generator = generator = self.generator
        m.submodules.loader = loader = self.loader
        m.submodules.word_offsets = deltas = self.offsets_block
        wiring.connect(m, loader.load, generator.load)
        wiring.connect(m, wiring.flipped(self.state), loader.beats)
        wiring.connect(m, deltas.offsets, wiring.flipped(self.offsets))
        command, issued, request = deltas.command, self.command, self.request
        # two registers cut the long paths from the states that issue commands and to the logic that takes them
        taken, held = Signal(), Signal()
        before, kept = (Signal(DeltaCommand(), name=name, reset_less=True) for name in ("before", "kept"))
        m.d.sync += [taken.eq(issued.valid & issued.ready), before.eq(issued.payload)]
        with m.If(taken):
            m.d.sync += [held.eq(1), kept.eq(before)]
        with m.Elif(command.ready):
            m.d.sync += held.eq(0)
        m.d.comb += [
            self.loaded.eq(loader.done),
            command.valid.eq(held | request.valid),
            command.payload.kind.eq(Mux(held, kept.kind, OffsetCommand.OFFSETS)),
            command.payload.factor.eq(Mux(held, kept.factor, request.payload.factor)),
            command.payload.count.eq(Mux(held, kept.count, request.payload.count)),
            command.payload.table.eq(Mux(held, kept.table, request.payload.table)),
            *(command.payload[name].eq(request.payload[name]) for name in ("word", "fraction", "wide")),
            issued.ready.eq(~taken & ~held),
            request.ready.eq(command.ready & ~held),
            deltas.done.ready.eq(1),
            self.done.eq(deltas.done.valid),
            self.clipped.eq(deltas.done.payload.clipped),
            deltas.load.valid.eq(self.load.valid),
            deltas.load.payload.eq(self.load.payload),
            self.load.ready.eq(deltas.load.ready),
            self.save.valid.eq(deltas.save.valid),
            self.save.payload.eq(deltas.save.payload),
            deltas.save.ready.eq(self.save.ready),
        ]
        m.submodules.shown = shown = DeltaMonitor(self.spec)
        m.d.comb += [
            shown.valid.eq(deltas.stored),
            shown.row.eq(deltas.row + Mux(deltas.table, self.first_rows, 0)),
            *(getattr(shown, name).eq(getattr(deltas, name)) for name in ("column", "delta")),
            self.valid.eq(shown.beat_valid),
            self.beat.eq(shown.beat),
            self.data.eq(shown.data),
        ]
        self._draw(m, taken, before, kept)
        probe(self, taken=taken, held=held, before=before, kept=kept)
        return m

    def _draw(self, m: Module, taken: Value, before: Any, kept: Any) -> None:
        """Draw the generator's words for a command, and count the generator's position."""
        generator, deltas = self.generator, self.offsets_block
        remaining, period = Signal.like(before.count, name="words_left", reset_less=True), self.spec.generator.period
        final, drawn = remaining == 1, generator.o.valid & generator.o.ready
        position, marked, after = (Signal(range(period), name=name) for name in ("position", "marked", "after"))
        with m.If(taken):
            m.d.sync += remaining.eq(before.count)
        with m.Elif(drawn):
            m.d.sync += remaining.eq(remaining - 1)
        m.d.comb += [
            deltas.u.valid.eq(generator.o.valid),
            deltas.u.payload.eq(generator.o.payload),
            generator.o.ready.eq(deltas.u.ready),
            generator.replay.bit.eq(kept.replay & final),
            generator.mark.bit.eq(kept.mark & final),
            after.eq(Mux(position == period - 1, 0, position + 1)),
            self.at.eq(position),
        ]
        with m.If(self.start):
            m.d.sync += [position.eq(self.position), marked.eq(self.position)]
        with m.Elif(drawn):
            m.d.sync += position.eq(Mux(generator.replay.bit, marked, after))
            with m.If(generator.mark.bit):
                m.d.sync += marked.eq(after)
        probe(self, left=remaining)
