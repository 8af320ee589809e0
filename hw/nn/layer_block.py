"""RTL of `conv` and `fc`: the core's sequencer, memories and multipliers for a single stage, with streams."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...golden.nn.layer_block import LayerBlockSpec
from ...golden.nn.mapping import Mapping
from ..ports import elements, members
from ..primitives.pipeline import delayed
from .activation_memory import ActivationMemory
from .mac import PARAMETER, MacArray
from .pooling import VALUE, Pooling
from .sample_writer import SampleWriter
from .sequencer import Sequencer
from .weight_memory import WeightMemory

PER_BEAT = 4
"""Activations of a beat of a sample in Q8.16."""


class LayerBlock(wiring.Component):
    """An activation a cycle in, a word a cycle through the multipliers, an activation a cycle out.

    While a sample is computed, the next one comes in; its outputs are computed once those before have left. Parameters
    are taken between samples, a whole image at a time; before the first since reset nothing else is taken.
    """

    def __init__(self, spec: LayerBlockSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping = self.spec.mapping
        stage = mapping.stages[0]
        m.submodules.activations = activations = ActivationMemory(mapping)
        m.submodules.array = array = MacArray(mapping.lanes, mapping.columns, stage.words * mapping.lanes, 1)
        m.submodules.outputs = outputs = Pooling(mapping)
        drain = ActivationMemory.LATENCY + 1 + array.latency + Pooling.LATENCY + 4
        m.submodules.sequencer = sequencer = Sequencer(mapping, drain)
        m.submodules.pack = pack = BeatPacker(mapping)
        m.submodules.image = image = SampleWriter(mapping)
        m.submodules.drain = leave = OutputReader(mapping)

        held, arrived = Signal(2), Signal(2)
        into, used = Signal(), Signal()
        coming, running = Signal(), Signal()
        fresh, entering, begin = Signal(), Signal(), Signal()
        idle, loaded, done = Signal(init=1), Signal(), Signal()
        two = mapping.sample_buffers == 2
        m.d.comb += [
            self.load.ready.eq(idle),
            fresh.eq(~coming & self.i.valid & (held != mapping.sample_buffers) & loaded & ~self.load.valid),
            pack.start.eq(fresh),
            pack.i.valid.eq(self.i.valid),
            pack.i.payload.eq(self.i.payload.activation),
            self.i.ready.eq(pack.i.ready),
            image.start.eq(entering),
            image.ready.eq(1),
            image.place.eq(into if two else 0),
            begin.eq((arrived != 0) & ~running),
            sequencer.start.eq(begin),
            sequencer.image.eq(used if two else 0),
        ]
        wiring.connect(m, pack.o, image.i)
        m.d.sync += [
            # a cycle later: the first beat is not there before
            entering.eq(fresh),
            done.eq(sequencer.done),
            idle.eq((held == 0) & ~sequencer.full & ~fresh),
            held.eq(held + fresh - done),
            arrived.eq(arrived + image.done - begin),
            into.eq(into ^ image.done),
            used.eq(used ^ done),
            coming.eq((coming | fresh) & ~image.done),
            running.eq((running | begin) & ~done),
        ]
        m.d.comb += [
            activations.write.eq(image.write),
            activations.write_address.eq(image.write_address),
            activations.values.eq(image.values),
            activations.copy.eq(image.copy),
            activations.value.eq(image.value),
            activations.address.eq(sequencer.address),
        ]
        self._operands(m, activations, array, sequencer, loaded)

        after = ActivationMemory.LATENCY + 1 + array.latency
        for name in ("pool_first", "pool_last", "target", "mask"):
            m.d.comb += getattr(outputs, name).eq(delayed(m, getattr(sequencer, name), after, f"late_{name}"))
        m.d.comb += [
            outputs.relu.eq(sequencer.relu),
            outputs.valid.eq(array.valid),
            outputs.values.eq(array.o),
            outputs.begin.eq(sequencer.begin),
            outputs.place.eq(sequencer.outbox),
            leave.filled.eq(sequencer.filled),
            sequencer.full.eq(leave.full),
            outputs.read.eq(leave.read),
            outputs.read_address.eq(leave.read_address),
            outputs.read_column.eq(leave.read_column),
            self.o.valid.eq(leave.valid),
            leave.ready.eq(self.o.ready),
            self.o.payload.activation.eq(outputs.value),
        ]
        return m

    def _operands(
        self, m: Module, activations: ActivationMemory, array: MacArray, sequencer: Sequencer, loaded: Signal
    ) -> None:
        """Word, weights and bias meet `LATENCY + 1` registers after their addresses. Whether all are there."""
        mapping = self.spec.mapping
        late = ActivationMemory.LATENCY - 1
        beat = Cat(elements(self.load.payload.parameter, self.spec.streams()["load"].fields[0]))
        write = self.load.valid & self.load.ready
        weights = mapping.weight_words * mapping.word_beats
        place, bias_place = Signal(range(weights)), Signal(range(mapping.groups))
        of_biases, end = Signal(), Signal()
        with m.If(write):
            m.d.sync += [
                place.eq(Mux(of_biases | (place == weights - 1), 0, place + 1)),
                bias_place.eq(Mux(of_biases & ~end, bias_place + 1, 0)),
                of_biases.eq((of_biases & ~end) | (place == weights - 1)),
                end.eq(
                    Mux(
                        of_biases,
                        ~end & (bias_place == mapping.groups - 2),
                        (place == weights - 1) & (mapping.groups == 1),
                    )
                ),
                loaded.eq(end),
            ]
        m.submodules.weights = tiles = WeightMemory(mapping.weight_words, mapping.lanes, mapping.columns)
        m.d.comb += [
            tiles.write.eq(write & ~of_biases),
            tiles.place.eq(place),
            tiles.beats.eq(beat),
            tiles.address.eq(delayed(m, sequencer.weight, late, "weight")),
        ]
        biases = memory.Memory(shape=data.ArrayLayout(PARAMETER, mapping.columns), depth=mapping.groups, init=[])
        m.submodules.biases = biases
        store, bias = biases.write_port(), biases.read_port()
        m.d.comb += [
            store.en.eq(write & of_biases),
            store.addr.eq(bias_place),
            store.data.eq(beat[: len(Value.cast(store.data))]),
            bias.addr.eq(delayed(m, sequencer.bias, late + 1, "bias_place")),
            array.bias.eq(bias.data),
        ]
        for lane in range(mapping.lanes):
            x = Signal(VALUE, name=f"x{lane}")
            m.d.sync += x.eq(Mux(activations.odd, activations.word[(lane + 1) % mapping.lanes], activations.word[lane]))
            m.d.comb += array.x[lane].eq(x)
        for number in range(mapping.lanes * mapping.columns):
            w = Signal(PARAMETER, name=f"w{number}")
            m.d.sync += w.eq(tiles.word[number])
            m.d.comb += array.w[number].eq(w)
        for name, flag in (("enable", sequencer.issue), ("first", sequencer.first), ("last", sequencer.last)):
            m.d.comb += getattr(array, name).eq(delayed(m, flag, late + 2, name))


class BeatPacker(wiring.Component):
    """A sample's activations to beats of four.

    Attributes
    ----------
    start
        A sample begins; the one before must have been taken, all beats of it.
    i, o
        ActivationMemory, beats.
    """

    def __init__(self, mapping: Mapping) -> None:
        self.total = mapping.inputs
        super().__init__(
            {
                "start": In(1),
                "i": In(stream.Signature(VALUE)),
                "o": Out(stream.Signature(128)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # activations behind the next one, less one: the sign says that the next one is the last
        left, taking = Signal(signed(self.total.bit_length() + 1)), Signal()
        slot, offered = Signal(2), Signal()
        beat = [Signal(VALUE, name=f"value{at}") for at in range(PER_BEAT)]
        m.d.comb += [
            self.i.ready.eq(taking & ~offered),
            self.o.valid.eq(offered),
            *(self.o.payload.word_select(at, 32).eq(value) for at, value in enumerate(beat)),
        ]
        with m.If(self.o.ready):
            m.d.sync += offered.eq(0)
        with m.If(self.start):
            m.d.sync += [left.eq(self.total - 2), slot.eq(0), taking.eq(1)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [left.eq(left - 1), slot.eq(slot + 1), taking.eq(~left[-1])]
            m.d.sync += offered.eq((slot == PER_BEAT - 1) | left[-1])
            for at, value in enumerate(beat):
                with m.If(slot == at):
                    m.d.sync += value.eq(self.i.payload)
        return m


class OutputReader(wiring.Component):
    """Reads the outputs channel by channel, row by row, from where they were kept in the order of their computation.

    Attributes
    ----------
    filled, full
        They are complete; they still wait to be read.
    read, read_address, read_column
        Of the memory; what it gives is on offer while `valid`.
    valid, ready
    """

    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        super().__init__(
            {
                **dict.fromkeys(("filled", "ready"), In(1)),
                **dict.fromkeys(("full", "read", "valid"), Out(1)),
                "read_address": Out(range(mapping.output_depth)),
                "read_column": Out(exact_log2(mapping.columns)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stage, columns = self.mapping.stages[0], self.mapping.columns
        group, address = Signal.like(self.read_address), Signal.like(self.read_address)
        cell, column, left = Signal(range(stage.cells)), Signal.like(self.read_column), Signal(range(stage.channels))
        advance, map_end, wrapped = Signal(), Signal(), Signal()
        m.d.comb += [
            advance.eq(~self.valid | self.ready),
            self.read.eq(advance),
            self.read_address.eq(address),
            self.read_column.eq(column),
            map_end.eq(cell == stage.cells - 1),
            wrapped.eq(column == columns - 1),
        ]
        with m.If(self.filled):
            m.d.sync += self.full.eq(1)
        with m.If(advance):
            m.d.sync += self.valid.eq(self.full)
            with m.If(self.full):
                m.d.sync += [cell.eq(cell + 1), address.eq(address + 1)]
                with m.If(map_end):
                    m.d.sync += [cell.eq(0), column.eq(column + 1), left.eq(left + 1)]
                    m.d.sync += address.eq(Mux(wrapped, address + 1, group))
                    with m.If(wrapped):
                        m.d.sync += group.eq(address + 1)
                    with m.If(left == stage.channels - 1):
                        m.d.sync += [self.full.eq(0), left.eq(0), column.eq(0), address.eq(0), group.eq(0)]
        return m
