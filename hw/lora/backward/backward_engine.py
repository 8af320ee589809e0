"""Backward engine: the adapters' forward pass, gradients and update on a batch in the batch memory.

It needs an array of multipliers, and no other part of the frozen network.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ....golden.fixed import Q8_16
from ....golden.lora.mapping import AdapterMapping
from ....golden.lora.memories import adapter_memory, batch_memory
from ....golden.rng.urng import UrngSpec
from ...nn.interfaces import ACTIVATION, BEAT_BITS, LOGIT
from ...nn.mac import MacArray
from ...nn.memories.weight_memory import WeightMemory
from ...primitives.pipeline import Pipeline, delayed
from ...primitives.ram import ram
from ...primitives.registers import replicas
from ..engine_interfaces import AdapterRead, AdapterUpdates, AdapterWrite, BatchWrite
from ..job_interfaces import BatchRun, LabelWrite
from .backward_sequencer import FETCH, BackwardSequencer
from .epoch_loss import GradientWatch
from .logit_head import LogitHead
from .paired_head import PairedLogitHead


class BackwardEngine(wiring.Component):
    """Batch memory, adapters A and B, backward sequencer with its updaters, and logit head.

    Parameters
    ----------
    mapping : AdapterMapping
    batch : int
        Most samples of a batch.
    array : MacArray
        Array behind the port `array`.
    halves : int
        Batches in the batch memory: 2 to load a batch during the computation of another, else 1.
    urng : UrngSpec, optional
        Generator for stochastic rounding of parameters; restarts at each load of parameters.
    watched : bool
        Adds the port `gradient`.

    Attributes
    ----------
    array : Out, `ArrayPort`
        The array, for this engine alone from ``batch.start`` to ``batch.done``.
    load : In, `AdapterWrite`
    saved : In, `AdapterRead`
    rows : In, `BatchWrite`
        Not to the half of the running batch.
    labels : In, `LabelWrite`
    batch : In, `BatchRun`
    show : In(1)
        Enables `logits`; stable during a batch.
    logits : Out stream of logits
        Logits of the batch; the batch stalls with this stream.
    updates : Out, `AdapterUpdates`
        All beats of A, then of B.
    gradient : Out, `GradientWatch`, with `watched`
        Gradients of the loss with respect to logits.
    clipped : Out(range)
        Logits, gradients and parameters clipped in the previous cycle.
    """

    def __init__(
        self,
        mapping: AdapterMapping,
        batch: int,
        array: MacArray,
        halves: int = 2,
        urng: UrngSpec | None = None,
        watched: bool = False,
    ) -> None:
        self.mapping, self.planned = mapping, batch_memory(mapping, batch, halves)
        self.sequencer = BackwardSequencer(mapping, batch, array.within_width, urng)
        head = PairedLogitHead if mapping.classes_per_cycle == 2 else LogitHead
        self.head = head(mapping, batch, array.within_width, watched)
        clipped = len(self.sequencer.clipped), len(self.head.clipped)
        super().__init__(
            {
                "array": Out(array.interface),
                "load": In(AdapterWrite(mapping)),
                "saved": In(AdapterRead(mapping)),
                "rows": In(BatchWrite(mapping, batch)),
                "labels": In(LabelWrite(batch)),
                "batch": In(BatchRun(batch)),
                "show": In(1),
                "logits": Out(LOGIT),
                "updates": Out(AdapterUpdates(mapping)),
                **({"gradient": Out(GradientWatch())} if watched else {}),
                "clipped": Out(max(clipped) + 1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pipeline = Pipeline(m, {"address": 0, "operands": FETCH, "multipliers": 1})
        sequencer, head = self.sequencer, self.head
        m.submodules.sequencer, m.submodules.head = sequencer, head
        wiring.connect(m, wiring.flipped(self.batch), sequencer.batch)
        wiring.connect(m, wiring.flipped(self.labels), head.labels)
        wiring.connect(m, head.logits, wiring.flipped(self.logits))
        wiring.connect(m, sequencer.updates, wiring.flipped(self.updates))
        m.d.comb += [
            head.start.eq(self.batch.start),
            head.half.eq(self.batch.half),
            head.show.eq(self.show),
            head.gradients.address.eq(sequencer.hidden),
            sequencer.finished.eq(head.finished),
            sequencer.completing.eq(self.array.completing),
            sequencer.complete.eq(self.array.complete),
            sequencer.sums.eq(self.array.sums),
            self.clipped.eq(head.clipped + sequencer.clipped),
        ]
        if head.watched:
            wiring.connect(m, head.gradient, wiring.flipped(self.gradient))
        if sequencer.urng:
            m.d.comb += sequencer.restart.eq(self.load.a.any() | self.load.b)
        a = self._parameters(m)
        self._operands(m, pipeline, a, self._fetch(m, pipeline, platform))
        return m

    def _parameters(self, m: Module) -> WeightMemory:
        """Memories of A and B: written by `load` or an update, read by the sequencer or, between batches, `saved`."""
        mapping, load, saved = self.mapping, self.load, self.saved
        sequencer, head, updates = self.sequencer, self.head, self.sequencer.updates
        m.submodules.a = a = WeightMemory(
            (adapter_memory(mapping),), mapping.lanes, mapping.columns, mapping.words_per_cycle, early=True
        )
        busy = Signal()
        with m.If(self.batch.start):
            m.d.sync += busy.eq(1)
        with m.Elif(self.batch.done):
            m.d.sync += busy.eq(0)
        loads = load.a.any()
        of_a = updates.address < mapping.a_beats
        row_bits = exact_log2(mapping.forward.word_beats)
        saved_b = delayed(m, saved.address - mapping.a_beats, 1, "saved_b", reset_less=True)
        b_beats = Mux(load.b, load.beats, updates.beats.as_value())
        m.d.comb += [
            a.write.eq(Mux(loads, load.a, Mux(of_a, updates.write, 0))),
            a.index.eq(Mux(loads, load.address, updates.address)),
            a.beats.eq(Mux(loads, load.beats, updates.beats.as_value())),
            a.address.eq(Mux(busy | self.batch.start, sequencer.row, saved.address[row_bits:])),
            sequencer.parameters.eq(a.word),
            head.b_write.enable.eq(load.b | (updates.write[0] & ~of_a)),
            head.b_write.address.eq(Mux(load.b, load.address, updates.address - mapping.a_beats)),
            head.b_write.value.eq(b_beats[: len(Value.cast(head.b_write.value))]),
            head.b_read.address.eq(Mux(busy, sequencer.b.address, saved_b)),
            sequencer.b.value.eq(head.b_read.value),
            sequencer.b.gradient.eq(head.b_read.gradient),
        ]
        self._save(m, busy)
        return a

    def _save(self, m: Module, busy: Signal) -> None:
        """Saved beats are the parameter operands of the updaters, for B those of the first updater."""
        mapping, address, sequencer = self.mapping, self.saved.address, self.sequencer
        of_b = delayed(m, address >= mapping.a_beats, 1, "saves_b", reset_less=True)
        place = delayed(m, address[: exact_log2(mapping.forward.word_beats)], 1, "saved_place", reset_less=True)
        beats, words = sequencer.saved.beats, mapping.words_per_cycle
        if words > 1:
            number = delayed(m, Mux(of_b, 0, place[: exact_log2(words)]), 2, "saved_word", reset_less=True)
            beats = beats.word_select(number, BEAT_BITS)
        m.d.comb += [
            sequencer.saved.part.eq(place[exact_log2(words) :]),
            sequencer.saved.of_b.eq(of_b & ~busy),
            self.saved.beat.eq(beats),
        ]

    def _operands(self, m: Module, pipeline: Pipeline, a: WeightMemory, row: list[Value]) -> None:
        """Rows, with parameters or the hidden values' gradients, `FETCH` cycles after the address."""
        array, sequencer, head = self.array, self.sequencer, self.head
        within = pipeline.place("address", sequencer.within, "within").at("operands")
        gradient = list(head.gradients.value)
        m.d.comb += [
            *(into.eq(value) for into, value in zip(array.x, row, strict=True)),
            *(into.eq(value) for into, value in zip(array.w, self._second_operands(m, a, gradient), strict=True)),
            array.within.eq(within),
            head.forward.hidden_valid.eq(array.valid),
            *(into.eq(value) for into, value in zip(head.forward.hidden, array.y, strict=False)),
            # base logits are read from the array's operand registers
            head.forward.base_valid.eq(pipeline.place("address", sequencer.base, "base").at("multipliers")),
            *(into.eq(value) for into, value in zip(head.forward.base, array.operands, strict=False)),
        ]
        for name in ("enable", "first", "last"):
            flag = pipeline.place("address", getattr(sequencer, name), name)
            m.d.comb += getattr(array, name).eq(flag.at("operands"))

    def _second_operands(self, m: Module, a: WeightMemory, gradients: list[Value]) -> list[Value]:
        """Parameters or hidden values' gradients, lane by lane, with a select register for each column."""
        columns = self.mapping.columns
        within = replicas(columns, "within_column")
        m.d.sync += [register.eq(self.sequencer.within) for register in within]
        ranks = self.mapping.ranks
        return [
            Mux(within[number % columns], gradients[number % ranks], parameter)
            for number, parameter in enumerate(a.word)
        ]

    def _fetch(self, m: Module, pipeline: Pipeline, platform: object) -> list[Value]:
        """Row at the sequencer's address, a cycle later; the batch memory has a bank for each word of a row.

        A constant row is 1 and zeros, whatever the memory holds. The head reads targets while the sequencer waits for
        gradients.
        """
        mapping, address = self.mapping, self.sequencer.address
        targets = self.head.targets if mapping.loss == "mse" else None
        if targets is not None:
            m.d.comb += targets.free.eq(self.sequencer.waits)
            address = Mux(targets.free, targets.address, address)
        values: list[Value] = []
        for number in range(mapping.words_per_cycle):
            part = ram(platform, self.planned, data.ArrayLayout(ACTIVATION, mapping.lanes))
            m.submodules[f"batch{number}"] = part
            into, fetch = part.write_port(), part.read_port()
            first = number * mapping.lanes
            m.d.comb += [
                into.en.eq(self.rows.enable[number]),
                into.addr.eq(self.rows.address[number] if mapping.loads_apart else self.rows.address),
                into.data.eq(Cat(self.rows.words[first + lane] for lane in range(mapping.lanes))),
                fetch.addr.eq(address),
            ]
            values.extend(fetch.data)
        if targets is not None:
            m.d.comb += [into.eq(value) for into, value in zip(targets.values, values, strict=False)]
        if mapping.constant_rows:
            constant = pipeline.place("address", self.sequencer.constant, "constant").at("operands")
            constants = [1 << Q8_16.fraction, *[0] * (len(values) - 1)]
            values = [Mux(constant, fixed, value) for fixed, value in zip(constants, values, strict=True)]
        return values
