"""Walks the frozen network's stages: which activations meet which weights, and where the outputs go."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.nn.mapping import Mapping
from ..primitives.pipeline import delayed


class Sequencer(wiring.Component):
    """One word a cycle; between stages it waits until their outputs are written.

    Attributes
    ----------
    start, image, done
        A sample; in which place of the activations' memory it lies; its last output is written.
    full, filled
        For each stage whether its outputs still wait to be recorded; set for one cycle when they are complete.
    issue, address, weight, bias
        A word, from which it comes.
    first, last, pool_first, pool_last
        Of the words of a sum, and of the sums of a pool.
    target, mask, relu
        Of the output: where to, which columns are there, whether negative ones become zero.
    begin, outbox
        A stage begins; where its outputs are put for the record.
    """

    COUNTERS = 7

    def __init__(self, mapping: Mapping, drain: int) -> None:
        self.mapping, self.drain = mapping, drain
        stages = mapping.stages
        self.address_bits = (mapping.activation_values - 1).bit_length()
        super().__init__(
            {
                "start": In(1),
                "image": In(1),
                "done": Out(1),
                "full": In(len(stages)),
                "filled": Out(len(stages)),
                "issue": Out(1),
                "address": Out(unsigned(self.address_bits)),
                "weight": Out(range(mapping.weight_words)),
                "bias": Out(range(mapping.groups)),
                **dict.fromkeys(("first", "last", "pool_first", "pool_last", "relu", "begin"), Out(1)),
                "target": Out(unsigned(self.address_bits)),
                "mask": Out(mapping.columns),
                "outbox": Out(range(mapping.output_depth)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stages, count = self.mapping.stages, self.COUNTERS
        stage = Signal(range(len(stages)))
        wide = [max(s.loops[j].count for s in stages) for j in range(count)]
        counters = [Signal(range(w), name=f"counter{j}") for j, w in enumerate(wide)]
        limits = [Signal(range(w), name=f"limit{j}") for j, w in enumerate(wide)]
        jumps = [Signal(self.address_bits, name=f"jump{j}") for j in range(count)]
        moves = [Signal(self.address_bits, name=f"move{j}") for j in range(3)]
        last_mask = Signal(self.mapping.columns)
        # each loop counts down; whether it begins, whether it ends, and whether it is a single turn are registers
        begins, ends, single = Signal(count), Signal(count), Signal(count)
        level, more = Signal(range(count)), Signal()
        m.d.comb += more.eq(~ends.all())
        for j in reversed(range(count)):
            with m.If(~ends[j]):
                m.d.comb += level.eq(j)

        ready = Signal()
        with m.Switch(stage):
            for number in range(len(stages)):
                with m.Case(number):
                    m.d.comb += ready.eq(~self.full[number])
        pause = Signal(range(self.drain + 1))
        running = Signal()
        group = Signal.like(self.weight)
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.sync += stage.eq(0)
                with m.If(self.start):
                    m.next = "WAIT"
            with m.State("WAIT"), m.If(ready):
                m.next = "BEGIN"
            with m.State("BEGIN"):
                self._load(m, stage, limits, single, jumps, moves, last_mask, group)
                m.next = "FIRST"
            with m.State("FIRST"):
                m.d.sync += [c.eq(limit) for c, limit in zip(counters, limits, strict=True)]
                m.d.sync += [begins.eq(~0), ends.eq(single)]
                m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += running.eq(1)
                for j, c in enumerate(counters):
                    with m.If(ends[: j + 1].all()):
                        m.d.sync += [c.eq(limits[j]), begins[j].eq(1), ends[j].eq(single[j])]
                    with m.Elif(ends[:j].all()):
                        m.d.sync += [c.eq(c - 1), begins[j].eq(0), ends[j].eq(c == 1)]
                with m.If(~more):
                    m.d.sync += pause.eq(self.drain)
                    m.next = "DRAIN"
            with m.State("DRAIN"):
                m.d.sync += pause.eq(pause - 1)
                with m.If(pause == 0):
                    with m.Switch(stage):
                        for number in range(len(stages)):
                            with m.Case(number):
                                m.d.comb += self.filled[number].eq(1)
                    m.d.sync += stage.eq(stage + 1)
                    with m.If(stage == len(stages) - 1):
                        m.d.comb += self.done.eq(1)
                        m.d.sync += stage.eq(0)
                        m.next = "IDLE"
                    with m.Else():
                        m.next = "WAIT"

        # one register later: flags of the word, and the addresses, which have followed the last step
        chosen = delayed(m, level, 1, "level")
        m.d.sync += [
            self.begin.eq(fsm.ongoing("BEGIN")),
            self.issue.eq(running),
            self.first.eq(begins[:2].all()),
            self.last.eq(ends[:2].all()),
            self.pool_first.eq(begins[2:4].all()),
            self.pool_last.eq(ends[2:4].all()),
            self.mask.eq(Mux(ends[6], last_mask, (1 << self.mapping.columns) - 1)),
        ]
        jump, move = Signal(self.address_bits), Signal(self.address_bits)
        for j in range(count):
            with m.If(chosen == j):
                m.d.comb += jump.eq(jumps[j])
                if j >= 4:
                    m.d.comb += move.eq(moves[j - 4])
        with m.If(self.issue):
            m.d.sync += [self.address.eq(self.address + jump), self.target.eq(self.target + move)]
            with m.If((chosen < 2) | (chosen == 6)):
                m.d.sync += self.weight.eq(self.weight + 1)
            with m.Else():
                m.d.sync += self.weight.eq(group)
            with m.If(chosen == 6):
                m.d.sync += [group.eq(self.weight + 1), self.bias.eq(self.bias + 1)]
        return m

    def _load(
        self,
        m: Module,
        stage: Signal,
        limits: list[Signal],
        single: Signal,
        jumps: list[Signal],
        moves: list[Signal],
        last_mask: Signal,
        group: Signal,
    ) -> None:
        """Registers of a stage, from constants."""
        with m.Switch(stage):
            for number, own in enumerate(self.mapping.stages):
                counts = [loop.count for loop in own.loops]
                strides = [loop.stride for loop in own.loops]
                spans = [sum((counts[i] - 1) * strides[i] for i in range(j)) for j in range(self.COUNTERS)]
                x, y, g = own.targets
                targets = (x, y - (counts[4] - 1) * x, g - (counts[4] - 1) * x - (counts[5] - 1) * y)
                full = (1 << self.mapping.columns) - 1
                left = own.channels - (own.groups - 1) * self.mapping.columns
                with m.Case(number):
                    m.d.sync += [
                        *(limit.eq(n - 1) for limit, n in zip(limits, counts, strict=True)),
                        single.eq(sum((n == 1) << j for j, n in enumerate(counts))),
                        *(jump.eq(stride - span) for jump, stride, span in zip(jumps, strides, spans, strict=True)),
                        *(move.eq(by) for move, by in zip(moves, targets, strict=True)),
                        last_mask.eq(full >> (self.mapping.columns - left)),
                        group.eq(own.weights),
                        self.weight.eq(own.weights),
                        self.bias.eq(own.biases),
                        self.address.eq(
                            Mux(self.image, own.base + self.mapping.sample_values, own.base)
                            if number == 0
                            else own.base
                        ),
                        self.target.eq(own.target),
                        self.outbox.eq(own.output),
                        self.relu.eq(own.relu),
                    ]
