"""Forward engine: the frozen network, sample by sample, from beats of a sample to the outputs of every stage.

It knows no adapters, no records and no host. To run inference with it:

1. Send the beats of `golden.nn.array.images.frozen_image` through `load`, once; `loaded` follows the last one.
2. For each sample, while ``sample.room`` is 1: set ``sample.start`` for a cycle, then send the beats of
   `golden.nn.array.images.samples_image` through ``sample.beats`` until ``sample.done``. It is computed as soon as the
   one before is; meanwhile the next one may come in.
3. Connect ``outputs`` to an `OutputReader`, which gives the last stage's outputs, the logits, as a stream.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ...golden.fixed import Q4_12
from ...golden.nn.array import latency
from ...golden.nn.array.mapping import Mapping
from ..primitives.pipeline import delayed
from ..primitives.rounding import saturate
from .interfaces import BEATS, PARAMETER, CutRows, Offsets, Passes, SampleInput, StageOutputs
from .mac import MacArray
from .memories.activation_memory import ActivationMemory
from .memories.cut_memory import CutMemory
from .memories.output_memory import OutputMemory
from .memories.weight_memory import WeightMemory
from .pooling import Pooling
from .sample_buffers import SampleBuffers
from .sample_writer import SampleWriter
from .sequencer import Sequencer


class ForwardEngine(wiring.Component):
    """Sequencer, activation, weight, bias and output memories, the array of multipliers, pooling and ReLU.

    A word goes through the array in every cycle in which a stage runs. From a stage's last word to the next one's first
    it takes `golden.nn.array.latency.drain_cycles` and a few states; see there.

    Parameters
    ----------
    mapping : Mapping
        The network.
    array : MacArray, optional
        The array, where another component shares it: one with more terms, sums within multipliers, or two words a
        cycle. Without it the engine has one of its own, for no more than it needs.
    offsets : Offsets, optional
        Offsets that are added to the parameters, where the mapping has two sides. Not with a shared array.
    kept : int
        Number of the first stage whose outputs are kept to be read.
    cut_rows, cut_style : int, str
        Rows and kind of the `CutMemory`, only with `offsets`; without rows there is none.

    Attributes
    ----------
    load : In stream of beats
        The image of the frozen parameters, again and again; a beat a cycle, always ready. Not while a sample is
        computed.
    loaded : Out, 1
        An image's last beat is there, for one cycle.
    sample : In, `SampleInput`
        Samples.
    hold : In, 1
        Start no further sample; one that is computed goes on.
    running : Out, 1
        A sample is computed; the array is in use. With `hold` set it does not rise any more from the next cycle on.
    done : Out, 1
        A sample's last stage is complete, of both sides, for one cycle.
    outputs : Out, `StageOutputs`
        Outputs of all stages.
    shared : In, `ArrayPort`, only with `array`
        The array for another component, while no sample is computed: its sums' `valid` comes only then.
    clipped : Out, range(columns + 1)
        Number of sums across the lanes that were clipped in the cycle before, those of the port `shared` included.
    offsets : Out, `Offsets`, only with `offsets`
        Offsets of the parameters; the sums are saturated to Q4.12.
    both : In, 1, only with `offsets`
        Compute each sample with both sides of the offsets, stage by stage, and not only with the first one; stays the
        same while samples are there.
    passes : In, `Passes`, only with `offsets`
        Stages of a pass, and where its inputs come from.
    cut : Out, `CutRows`, only with a shared memory at the cut
        That memory.
    """

    def __init__(
        self,
        mapping: Mapping,
        array: MacArray | None = None,
        offsets: Offsets | None = None,
        kept: int = 0,
        cut_rows: int = 0,
        cut_style: str = "block",
    ) -> None:
        self.mapping, self.has_port, self.kept = mapping, array is not None, kept
        self.has_offsets, self.offset_of = offsets is not None, offsets.of_parameter if offsets else ()
        self.offset_latency = offsets.latency if offsets else 0
        self.cut_rows, self.cut_style = cut_rows, cut_style
        terms = max(stage.sum_words for stage in mapping.stages) * mapping.lanes
        self.array = array or MacArray(
            mapping.lanes,
            mapping.columns,
            terms,
            mapping.most_lane_terms,
            parts=mapping.lane_parts,
            halves=mapping.has_halves,
        )
        # parts of sums come one after the other
        self._drain = latency.drain_cycles(self.array.latency, mapping.pooling_latency) + mapping.most_parts - 1
        super().__init__(
            {
                "load": In(BEATS),
                "loaded": Out(1),
                "sample": In(SampleInput()),
                "hold": In(1),
                "running": Out(1),
                "done": Out(1),
                "outputs": Out(StageOutputs(mapping)),
                **({"shared": In(self.array.interface)} if self.has_port else {}),
                "clipped": Out(range(mapping.columns + 1)),
                **(
                    {
                        "offsets": Out(offsets),
                        "both": In(1),
                        "passes": In(Passes(mapping)),
                    }
                    if offsets
                    else {}
                ),
                **({"cut": Out(CutRows(mapping, cut_rows))} if cut_rows and cut_style == "shared" else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping, array = self.mapping, self.array
        m.submodules.array = array
        m.submodules.activations = activations = ActivationMemory(mapping)
        offset = self.has_offsets
        m.submodules.sequencer = sequencer = Sequencer(mapping, self._drain)
        m.submodules.buffers = buffers = SampleBuffers(mapping, restores=offset)
        if offset:
            m.d.comb += [
                buffers.restore.eq(self.passes.restore),
                sequencer.both.eq(self.both),
                sequencer.first_stage.eq(self.passes.first),
                sequencer.last_stage.eq(self.passes.last),
            ]
        m.submodules.writer = writer = SampleWriter(mapping)
        wiring.connect(m, wiring.flipped(self.sample.beats), writer.i)
        m.d.comb += [
            self.sample.room.eq(buffers.room),
            self.sample.done.eq(writer.done),
            buffers.enter.eq(self.sample.start),
            buffers.arrived.eq(writer.done),
            buffers.hold.eq(self.hold),
            buffers.done.eq(sequencer.issued if offset else sequencer.done),
            writer.start.eq(self.sample.start),
            writer.buffer.eq(buffers.into),
            sequencer.start.eq(buffers.begin),
            sequencer.buffer.eq(buffers.current),
            sequencer.full.eq(self.outputs.full),
            self.running.eq(buffers.running),
            self.done.eq(sequencer.done),
        ]
        m.d.sync += self.outputs.filled.eq(sequencer.filled)
        self._operands(m, activations, sequencer, buffers.running)
        pooling, begin = self._results(m, sequencer, buffers.running)
        restored = self._cut(m, sequencer, buffers, pooling, begin) if self.cut_rows else None
        self._activations(m, activations, writer, pooling, restored)
        return m

    def _operands(self, m: Module, activations: ActivationMemory, sequencer: Sequencer, running: Signal) -> None:
        """Word and weights reach the array `ACTIVATION_READ` cycles behind their addresses, biases as it adds them."""
        mapping, port = self.mapping, self.array.port
        read = activations.LATENCY
        ahead = read - latency.PARAMETER_READ - (latency.OFFSET if self.has_offsets else 0)
        weights, bias = self._parameters(m)
        m.d.comb += [
            activations.address.eq(sequencer.address),
            weights.address.eq(delayed(m, sequencer.weight, ahead, "weight")),
        ]
        group_number = delayed(m, sequencer.bias, ahead + self.array.bias_cycles, "bias")
        if self._has_parts:
            group_number = self._next_part(m, group_number, mapping.groups)
        m.d.comb += bias.addr.eq(group_number)
        word, group = weights.word.as_value(), bias.data.as_value()
        halved = delayed(m, sequencer.halved, read, "halved") if mapping.has_halves else Const(0)
        within = delayed(m, sequencer.within, read, "within") if mapping.has_within else Const(0)
        residual: Value = Const(0)
        if mapping.has_residuals:
            residual = delayed(m, sequencer.residual, read - 1, "residual")
        if self.has_offsets:
            tail = delayed(m, sequencer.tail, read - 1, "tail")
            word, group = self._offset(m, weights, bias, tail, residual, sequencer)
        if mapping.has_residuals:
            word = self._identity(word, halved, within, delayed(m, residual, 1, "identity"))
        x: list[Value] = [
            Mux(activations.odd, activations.word[(lane + 1) % mapping.lanes], activations.word[lane])
            for lane in range(mapping.lanes)
        ]
        if mapping.has_halves:
            half = mapping.lanes // 2
            x = [*x[:half], *(Mux(halved, lower, upper) for lower, upper in zip(x[:half], x[half:], strict=True))]
            m.d.comb += self.array.halved.eq(halved & running if self.has_port else halved)
        flags = {name: delayed(m, getattr(sequencer, name), read, name) for name in ("enable", "first", "last")}
        own = {
            "x": Cat(x).replicate(self.array.words_per_cycle),
            "w": word,
            **flags,
            "within": within,
        }
        if mapping.has_within:
            # other sums within are those of a shared array; with offsets `running` ends before the last words are read
            m.d.comb += self.array.rounds.eq(running if self.has_port else 1)
        for name, value in own.items():
            into = Value.cast(getattr(port, name))
            m.d.comb += into.eq(Mux(running, value, Value.cast(getattr(self.shared, name))) if self.has_port else value)
        m.d.comb += self.array.bias.eq(Mux(running, group, 0) if self.has_port else group)
        if self.array.words_per_cycle == 2:
            m.d.comb += self.array.paired.eq(~running)

    def _offset(
        self,
        m: Module,
        weights: WeightMemory,
        bias: memory.ReadPort,
        tail: Value,
        residual: Value,
        sequencer: Sequencer,
    ) -> tuple[Value, Value]:
        """Weights and biases with their offsets, one cycle after their memories; 0 where a lane has no weights."""
        mapping, offsets = self.mapping, self.offsets
        used, tail_lanes = Signal(mapping.lanes), Signal(mapping.lanes)
        # the next stage begins before the last words of the one before are read
        with m.If(delayed(m, sequencer.begin, ActivationMemory.LATENCY - 1, "tail_begin")):
            m.d.sync += tail_lanes.eq(sequencer.tail_lanes)
        none: Value = tail.replicate(mapping.lanes) & ~tail_lanes
        if mapping.has_residuals:
            none |= residual.replicate(mapping.lanes)
        m.d.sync += used.eq(~none)
        ahead = ActivationMemory.LATENCY - latency.OFFSET
        bias_ahead = ahead - latency.PARAMETER_READ + self.array.bias_cycles
        m.d.comb += [
            offsets.weight.eq(delayed(m, sequencer.weight, ahead - self.offset_latency, "offset")),
            offsets.side.eq(delayed(m, sequencer.side, ahead - 1, "side")),
            offsets.bias.eq(bias.addr),
            offsets.bias_side.eq(delayed(m, sequencer.side, bias_ahead, "bias_side")),
        ]

        def added(parameter: Value, offset: Value, name: str) -> Value:
            total = Signal(signed(PARAMETER.width + 1), name=name)
            m.d.sync += total.eq(parameter + offset)
            return saturate(total, PARAMETER.width)

        word = []
        for number, weight in enumerate(weights.word):
            value = added(weight, offsets.numbers[self.offset_of[number]], f"weight_sum{number}")
            word.append(Mux(used[number // mapping.columns], value, 0))
        pairs = zip(bias.data, offsets.biases, strict=True)
        return Cat(word), Cat(added(*pair, f"bias_sum{column}") for column, pair in enumerate(pairs))

    @property
    def _has_parts(self) -> bool:
        """Whether a stage has sums in parts."""
        return self.mapping.most_parts > 1

    def _next_part(self, m: Module, group: Value, groups: int) -> Value:
        """Group of the biases that are read: with a further part the one behind that of the cycle before."""
        following, number = Signal(range(groups)), Signal(range(groups), name="group_number")
        begins = self.array.bias_cycles - 1 - latency.within_latency()
        ahead = latency.PARAMETER_READ + (latency.OFFSET if self.has_offsets else 0)
        m.d.comb += number.eq(Mux(delayed(m, self.array.further, begins - ahead, "further"), following, group))
        m.d.sync += following.eq(number + 1)
        return number

    def _identity(self, word: Value, halved: Value, within: Value, residual: Value) -> Value:
        """The word's weights, or for a residual 1.0 for the lane of each of its channels, in the channel's column."""
        mapping, half = self.mapping, self.mapping.lanes // 2
        whole = [(column, column) for column in range(mapping.columns)]
        one = self._ones(whole)
        if mapping.has_halves:
            halves = self._ones([*whole, *((half + mapping.columns + column, column) for column, _ in whole)])
            one = Mux(halved, halves, one)
        if mapping.has_within:
            lanes = self._ones([(lane, 0) for lane in range(mapping.lanes)])
            one = Mux(within, lanes, one)
        # with offsets no lane of such a word has weights
        return word | Mux(residual, one, 0) if self.has_offsets else Mux(residual, one, word)

    def _ones(self, places: list[tuple[int, int]]) -> Value:
        """Weights of a word that are 1.0 at these lanes and columns, and otherwise 0."""
        columns, width = self.mapping.columns, PARAMETER.width
        ones = sum(1 << (lane * columns + column) * width + Q4_12.fraction for lane, column in places)
        return Const(ones, self.mapping.lanes * columns * width)

    def _parameters(self, m: Module) -> tuple[WeightMemory, memory.ReadPort]:
        """The weight memory and a read port of the bias memory, filled beat by beat: all weights, then all biases."""
        mapping = self.mapping
        beats = mapping.weight_words * mapping.word_beats
        m.submodules.weights = weights = WeightMemory(mapping.weight_words, mapping.lanes, mapping.columns)
        m.submodules.biases = biases = memory.Memory(
            shape=data.ArrayLayout(PARAMETER, mapping.columns), depth=mapping.groups, init=[]
        )
        store = biases.write_port()
        index, of_biases, end = Signal(range(max(beats, mapping.groups))), Signal(), Signal()
        m.d.comb += [
            end.eq(index == Mux(of_biases, mapping.groups - 1, beats - 1)),
            self.load.ready.eq(1),
            self.loaded.eq(self.load.valid & of_biases & end),
            weights.write.eq(self.load.valid & ~of_biases),
            weights.index.eq(index),
            weights.beats.eq(self.load.payload),
            store.en.eq(self.load.valid & of_biases),
            store.addr.eq(index),
            store.data.eq(self.load.payload[: len(Value.cast(store.data))]),
        ]
        with m.If(self.load.valid):
            m.d.sync += [index.eq(Mux(end, 0, index + 1)), of_biases.eq(of_biases ^ end)]
        return weights, biases.read_port()

    @property
    def _sum_latency(self) -> int:
        """Cycles from a word to the sum that it completes."""
        return ActivationMemory.LATENCY + self.array.latency

    @property
    def _output_latency(self) -> int:
        """Cycles from a word to what is two registers ahead of the outputs that it completes."""
        return self._sum_latency + self.mapping.pooling_latency - latency.POOLING

    def _results(self, m: Module, sequencer: Sequencer, running: Signal) -> tuple[Pooling, Value]:
        """Sums become outputs, which go into the output memory; also the beginning of a stage's sums."""
        mapping, port = self.mapping, self.array.port
        m.submodules.pooling = pooling = Pooling(mapping)
        m.submodules.memory = outputs = OutputMemory(mapping, self.kept)
        late = self._sum_latency

        def behind(value: Value, name: str, cycles: int = late) -> Value:
            # with two sides a stage begins before the outputs of the one before are there
            return delayed(m, value, cycles, name) if self.has_offsets else value

        begin = behind(sequencer.begin, "output_begin", self._output_latency)

        # field by field: a single stage's target and mask are not used, and their registers go
        control = {
            name: delayed(m, sequencer.pool[name], late, f"pool_{name}") for name in pooling.control.shape().members
        }
        valid = port.valid if self.has_offsets else port.valid & running
        if self._has_parts:
            self._part(m, control, behind(sequencer.cells, "cells"))
            m.d.comb += outputs.position.eq(pooling.position)
        m.d.comb += [
            *(pooling.control[name].eq(value) for name, value in control.items()),
            pooling.relu.eq(behind(sequencer.relu, "relu")),
            pooling.valid.eq(valid),
            pooling.sums.eq(port.y),
            outputs.begin.eq(begin),
            outputs.first.eq(behind(sequencer.output, "output_first", self._output_latency)),
            outputs.write.eq(pooling.write),
            outputs.values.eq(pooling.o),
            outputs.enable.eq(self.outputs.enable),
            outputs.address.eq(self.outputs.address),
            outputs.column.eq(self.outputs.column),
            self.outputs.value.eq(outputs.value),
        ]
        if mapping.has_limits:
            m.d.comb += pooling.limit.eq(behind(sequencer.limit, "limit"))
        if mapping.slopes:
            m.d.comb += pooling.slope.eq(behind(sequencer.slope, "slope"))
        if len(mapping.pooled_parts) > 1:
            m.d.comb += pooling.parts.eq(behind(sequencer.pooled_parts, "pooled_parts"))
        if mapping.averages:
            m.d.comb += pooling.divisor.eq(behind(sequencer.divisor, "divisor"))
        if self.has_offsets:
            side = behind(sequencer.side, "output_side", self._output_latency)
            m.d.comb += [outputs.into.eq(side), outputs.side.eq(self.outputs.side)]
        if self.has_port:
            m.d.comb += [
                self.shared.operands.eq(port.operands),
                self.shared.valid.eq(port.valid & ~running),
                self.shared.y.eq(port.y),
                self.shared.complete.eq(port.complete),
                self.shared.sums.eq(port.sums),
            ]
        # columns without an output channel have sums, too, where parameters have offsets, or parts other biases
        clipped: Value = self.array.clipped
        if self.has_offsets or self._has_parts:
            shared = (~running).replicate(mapping.columns) if self.has_port else 0
            clipped &= pooling.control.mask | shared
        counts = port.valid & pooling.control.inside if mapping.has_padded_pools else port.valid
        m.d.sync += self.clipped.eq(sum((bit & counts for bit in clipped), Value.cast(0)))
        return pooling, begin

    def _part(self, m: Module, control: dict[str, Value], cells: Value) -> None:
        """Control of further parts of a sum: that of the part before, for the channels behind its own."""
        columns, rest = self.mapping.columns, self.array.rest
        following = {name: Signal.like(value, name=f"next_{name}") for name, value in control.items()}
        control |= {name: Mux(rest, following[name], value) for name, value in control.items()}
        behind = Cat(control["mask"], control["more"]) >> columns
        after = control | {
            "target": control["target"] + columns,
            "position": control["position"] + cells,
            "mask": behind[:columns],
            "more": behind[columns:],
        }
        m.d.sync += [following[name].eq(value) for name, value in after.items()]

    def _cut(
        self, m: Module, sequencer: Sequencer, buffers: SampleBuffers, pooling: Pooling, begin: Value
    ) -> CutMemory:
        """Keep the outputs of the network's first part, and restore them for passes of its second part."""
        m.submodules.cut = cut = CutMemory(self.mapping, self.cut_rows, self.cut_style)
        # while samples are held, no pass follows
        m.d.sync += cut.free.eq(sequencer.consumed & self.passes.restore & ~self.hold)
        m.d.comb += [
            cut.cut.eq(self.passes.cut),
            cut.recording.eq(self.passes.record),
            cut.restart.eq(self.passes.restart),
            cut.begin.eq(begin),
            cut.final.eq(delayed(m, sequencer.final, self._output_latency, "cut_final")),
            cut.write.eq(pooling.write),
            cut.mask.eq(pooling.mask),
            cut.address.eq(pooling.address),
            cut.values.eq(pooling.o),
            cut.taken.eq(buffers.begin & buffers.restore),
            buffers.restored.eq(cut.restored),
        ]
        if self.cut_style == "shared":
            wiring.connect(m, cut.rows, wiring.flipped(self.cut))
        return cut

    def _activations(
        self,
        m: Module,
        activations: ActivationMemory,
        writer: SampleWriter,
        pooling: Pooling,
        restored: CutMemory | None,
    ) -> None:
        """Writes of activations: a stage's outputs first, then what is restored; a sample that comes in waits."""
        # a single stage has no next one
        chained = len(self.mapping.stages) > 1
        own, write = pooling.write if chained else 0, activations.write
        mask, address, values = pooling.mask, pooling.address, pooling.o.as_value()
        if restored is not None:
            stage, own = own, own | restored.o_valid
            m.d.comb += restored.ready.eq(~stage)
            mask = Mux(stage, mask, restored.o_mask)
            address = Mux(stage, address, restored.o_address)
            values = Mux(stage, values, restored.o_values.as_value())
        m.d.comb += [
            writer.ready.eq(~own if chained else 1),
            write.write.eq(Mux(own, mask, writer.write.write)),
            write.address.eq(Mux(own, address, writer.write.address)),
            write.values.eq(Mux(own, values, writer.write.values.as_value())),
            write.replicate.eq(writer.write.replicate & ~own if chained else writer.write.replicate),
            write.value.eq(writer.write.value),
        ]
