"""Backward sequencer: addresses of a batch, forward by sample, then backward by row; updates from gradients."""

import itertools

from amaranth.hdl import Array, Cat, Const, Module, Mux, ResetInserter, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ....golden.lora.mapping import AdapterMapping
from ....golden.nn.array import latency
from ....golden.rng.urng import UrngSpec
from ...nn.interfaces import PARAMETER
from ...ports import elements
from ...primitives.pipeline import Pipeline
from ...primitives.registers import data_register, replicas
from ...probe import probe
from ...rng.urng import Urng
from ..engine_interfaces import VALUES, AdapterUpdates, BRead, SavedParameters
from ..job_interfaces import BatchRun
from .update import Updater

ISSUE = 1
"""Register of a row's addresses and flags."""
FETCH = 1
"""Read of the batch memory, of A, of B, of the hidden values' gradients."""
HELD = 1
"""Register of a row's gradients during their updates."""
OPERANDS = 1
"""Operand registers of the updaters."""
CLIPPED = 2
"""Registers of the counts of clipped values, after an update's last beat."""
_LANES_A_PART, _CHOICES_A_PART = 4, 64
"""Most lanes of an update with a common part counter, and most gradients in its multiplexers."""


class BackwardSequencer(wiring.Component):
    """Issues a row of adapter inputs a cycle.

    Forward: the rows of a sample in turn; an adapter's sum is complete after its last row. Backward: the samples of a
    row in turn; then each multiplier holds the gradient of a parameter. The gradients leave during the next row, eight
    a cycle for each word of a row.

    Parameters
    ----------
    mapping : AdapterMapping
    batch : int
        Most samples of a batch.
    width : int
        Bits of a gradient's sum.
    urng : UrngSpec, optional
        Generator for stochastic rounding of parameters, see `UpdateNoise.by_image`; by default round to nearest.

    Attributes
    ----------
    batch : In, `BatchRun`
    restart : In(1), with `urng`
        Restart the random numbers; between batches.
    finished : In(range(batch + 1))
        Samples with complete gradients of hidden values.
    waits : Out(1), with the loss ``mse``
        Waits for gradients: `address` is unused.
    enable, within, first, last : Out(1)
        Flags of a row for the array, `FETCH` cycles before its operands.
    base : Out(1)
        The row has base logits, in the cycle of its address.
    constant : Out(1), with `AdapterMapping.constant_rows`
        The row is a constant 1, `FETCH` cycles before its operands.
    address : Out(range(2 * batch * sample_rows))
        Row in the batch memory.
    row : Out(range(adapter_rows))
        Row of A, a cycle ahead of `address`: forward the row in use, backward the row to update.
    hidden : Out(range(batch * adapters))
        Entry of the hidden values' gradients, the row's second operand.
    completing : In(1)
        `complete` is high in the next cycle.
    complete : In(1)
        `sums` has a row's gradients.
    sums : In, array of lanes * columns integers of `width` bits
        Gradients, stable in the cycle of `complete`.
    parameters : In, array of lanes * columns Q4.12
        Row `row` of A, two cycles later.
    b : Out, `BRead`
    updates : Out, `AdapterUpdates`
    saved : In, `SavedParameters`
    clipped : Out(range(16 * words_per_cycle + 1))
        Gradients and parameters clipped in the previous cycle.
    """

    def __init__(self, mapping: AdapterMapping, batch: int, width: int, urng: UrngSpec | None = None) -> None:
        self.mapping, self.most, self.urng = mapping, batch, urng
        self.entries = mapping.classes * mapping.adapters
        values, words = mapping.lanes * mapping.columns, mapping.words_per_cycle
        self.slices = mapping.forward.word_beats // words
        # the row of A follows the leaving gradients; its parameters arrive two registers later
        self.period = self.slices + ISSUE + FETCH
        self.updaters = [Updater(width, urng.bits if urng else 0) for _ in range(words)]
        super().__init__(
            {
                "batch": In(BatchRun(batch)),
                **({"restart": In(1)} if urng else {}),
                "finished": In(range(batch + 1)),
                **({"waits": Out(1)} if mapping.loss == "mse" else {}),
                **dict.fromkeys(("enable", "within", "first", "last", "base"), Out(1)),
                **({"constant": Out(1)} if mapping.constant_rows else {}),
                "address": Out(range(2 * batch * mapping.sample_rows)),
                "row": Out(range(max(mapping.adapter_rows, 2))),
                "hidden": Out(range(batch * mapping.adapters)),
                "completing": In(1),
                "complete": In(1),
                "sums": In(data.ArrayLayout(signed(width), values)),
                "parameters": In(data.ArrayLayout(PARAMETER, values)),
                "b": Out(BRead(mapping, width)),
                "updates": Out(AdapterUpdates(mapping)),
                "saved": In(SavedParameters(mapping)),
                "clipped": Out(range(2 * VALUES * words + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """State machine; longer than most, as the states share their counters."""
        m = Module()
        mapping, run = self.mapping, self.batch
        rows, begin = mapping.sample_rows, mapping.row_order[0]
        sample, row = Signal.like(run.count), Signal(range(len(mapping.row_order)))
        last_sample, last_row, of_logits = Signal(), Signal(), Signal()
        # cycles from a row's last issue until its gradients have left, less the fetch of B's first entry
        leave = ISSUE + FETCH + latency.within_latency() + HELD + self.slices - FETCH
        settle = FETCH + OPERANDS + Updater.LATENCY + CLIPPED
        pace, pause = Signal(range(max(self.most, leave) + 1)), Signal(range(settle))
        origin, position = Signal.like(self.address), Signal.like(self.address)
        hidden, entry = Signal.like(self.hidden), Signal(range(self.entries + 1))
        # the row has more samples; the previous row's gradients have had time to leave
        more, paced = Signal(), Signal()
        # backward, `ending` flags the last sample a cycle ahead
        ending, single, nearly = Signal(), Signal(), Signal.like(run.count)
        forward, backward, column = Signal(), Signal(), Signal()
        final, waits_for_gradients = Signal.like(run.count), Signal()
        step = self._step(row)
        m.d.sync += [final.eq(run.count - 1), nearly.eq(final - 1), single.eq(final == 0)]
        m.d.comb += [
            last_sample.eq(sample == final),
            last_row.eq(row == mapping.adapter_rows + mapping.logit_rows - 1),
            of_logits.eq(row >= mapping.adapter_rows if mapping.logit_rows > 1 else last_row),
        ]
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.sync += [sample.eq(0), row.eq(0), entry.eq(0)]
                m.d.sync += [
                    counter.eq(Mux(run.half, self.most * rows + begin, begin)) for counter in (position, origin)
                ]
                with m.If(run.start):
                    m.next = "FORWARD"
            with m.State("FORWARD"):
                m.d.comb += forward.eq(1)
                m.d.sync += [position.eq(position + step), row.eq(row + 1)]
                with m.If(last_row):
                    m.d.sync += [row.eq(0), sample.eq(sample + 1)]
                    with m.If(last_sample):
                        m.d.sync += sample.eq(0)
                        m.next = "LOGITS"
            with m.State("LOGITS"):
                if mapping.loss == "mse":
                    m.d.comb += waits_for_gradients.eq(1)
                m.d.sync += [position.eq(origin), pace.eq(0), paced.eq(0), more.eq(1), hidden.eq(0), pause.eq(0)]
                m.d.sync += ending.eq(single)
                with m.If(self.finished == run.count):
                    m.d.comb += run.labels_done.eq(1)
                    m.next = "BACKWARD"
                    with m.If(~run.learn):
                        m.d.comb += run.done.eq(1)
                        m.next = "IDLE"
            with m.State("BACKWARD"):
                m.d.comb += backward.eq(more)
                with m.If(more):
                    m.d.sync += [
                        sample.eq(sample + 1),
                        position.eq(position + rows),
                        hidden.eq(hidden + mapping.adapters),
                    ]
                    m.d.sync += [more.eq(~ending), ending.eq(sample == nearly)]
                # set a cycle before the end of the period
                m.d.sync += [pace.eq(pace + 1), paced.eq(pace >= self.period - 2)]
                with m.If(paced & (~more | ending)):
                    m.d.sync += [pace.eq(0), paced.eq(0), more.eq(1), ending.eq(single), sample.eq(0)]
                    m.d.sync += [row.eq(row + 1), position.eq(origin + step), origin.eq(origin + step), hidden.eq(0)]
                    self._next_adapter(m, row, hidden)
                    with m.If(row == mapping.adapter_rows - 1):
                        m.next = "LEAVE"
            with m.State("LEAVE"):
                # the last row's gradients leave before those of B; the state begins after its last issue
                m.d.sync += pace.eq(pace + 1)
                with m.If(pace == leave - 2):
                    m.next = "SETTLE" if mapping.shape.selects else "COLUMNS"
                    if mapping.shape.selects:
                        m.d.sync += pause.eq(settle - 1)
            if not mapping.shape.selects:
                with m.State("COLUMNS"):
                    m.d.comb += column.eq(1)
                    m.d.sync += [entry.eq(entry + 1), pause.eq(settle - 1)]
                    with m.If(entry == self.entries - 1):
                        m.next = "SETTLE"
            with m.State("SETTLE"):
                m.d.sync += pause.eq(pause - 1)
                with m.If(pause == 0):
                    m.d.comb += run.done.eq(1)
                    m.next = "IDLE"

        first, last = self._ends(m, row)
        leaving = self._drain(m, column, entry)
        m.d.sync += [
            self.enable.eq((forward & ~of_logits) | backward),
            self.within.eq(backward),
            self.first.eq(Mux(backward, sample == 0, first)),
            self.last.eq(Mux(backward, ending, last)),
            self.base.eq(forward & of_logits),
            self.address.eq(position),
            self.hidden.eq(hidden),
        ]
        # backward, parameters are read for the leaving gradients
        m.d.comb += [self.b.address.eq(entry), self.row.eq(Mux(forward, row, leaving))]
        if mapping.constant_rows:
            m.d.sync += self.constant.eq(self._is_constant(row))
        if mapping.loss == "mse":
            # the address of the last row is used a cycle later
            m.d.sync += self.waits.eq(waits_for_gradients)
        probe(self, fsm, forward=forward, final=final, row=row, sample=sample, leave=leave, settle=settle)
        return m

    def _is_constant(self, row: Signal) -> Value:
        return Cat(row == number for number in self.mapping.constant_rows).any()

    def _step(self, row: Signal) -> Value:
        """Distance in the batch memory from this row to the next, or after the logits to the next sample."""
        order = [*self.mapping.row_order, self.mapping.sample_rows + self.mapping.row_order[0]]
        step: Value = Const(1)
        for number, (here, following) in enumerate(itertools.pairwise(order)):
            if following != here + 1:
                step = Mux(row == number, Const(following - here, signed(len(self.address) + 1)), step)
        return step

    def _ends(self, m: Module, row: Signal) -> tuple[Signal, Signal]:
        """Whether a row is the first, or the last, of its adapter's input."""
        first, last, begin = Signal(), Signal(), 0
        for rows in self.mapping.rows_per_adapter:
            with m.If(row == begin):
                m.d.comb += first.eq(1)
            begin += rows
            with m.If(row == begin - 1):
                m.d.comb += last.eq(1)
        return first, last

    def _next_adapter(self, m: Module, row: Signal, hidden: Signal) -> None:
        """Set the adapter of the next row."""
        begin = 0
        for number, rows in enumerate(self.mapping.rows_per_adapter):
            begin += rows
            rows_before = [before for before in range(begin - rows - 1, begin - 1) if before >= 0]
            if number and rows_before:
                with m.If((row >= rows_before[0]) & (row <= rows_before[-1])):
                    m.d.sync += hidden.eq(number)

    def _drain(self, m: Module, column: Signal, entry: Signal) -> Signal:
        """Hold a row's gradients and send each updater a beat a cycle, or gradients of B to the first updater.

        Returns the row whose gradients leave now or next.
        """
        mapping, slices, words = self.mapping, self.slices, self.mapping.words_per_cycle
        clipped = []
        for number, updater in enumerate(self.updaters):
            m.submodules[f"updater{number}"] = updater
            m.d.comb += updater.rate.eq(self.batch.rate)
            clipped.append(updater.clipped)
        held = Signal(self.sums.shape(), reset_less=True)
        row, busy = Signal(range(mapping.adapter_rows + 1)), Signal()
        # replicated: each register enables or selects some of the gradients
        takes = replicas(mapping.columns, "takes")
        of_part = min(_LANES_A_PART, _CHOICES_A_PART // slices)
        parts = replicas(VALUES * words // of_part, "part", range(slices))
        part = parts[0]
        m.d.sync += [take.eq(self.completing) for take in takes]
        for place, total in enumerate(self.sums):
            with m.If(takes[place % mapping.columns]):
                m.d.sync += held[place].eq(total)
        number = Signal(range(mapping.adapter_rows * slices + 1))
        with m.If(self.batch.start):
            m.d.sync += [row.eq(0), number.eq(0)]
        with m.If(self.complete):
            m.d.sync += [busy.eq(1), *(each.eq(0) for each in parts)]
        with m.Elif(busy):
            m.d.sync += [number.eq(number + 1), *(each.eq(part + 1) for each in parts)]
            with m.If(part == slices - 1):
                m.d.sync += [busy.eq(0), row.eq(row + 1)]
        with m.Else():
            m.d.sync += [each.eq(self.saved.part) for each in parts]
        pipeline = Pipeline(m, {"entry": 0, "gradients": FETCH, "updaters": OPERANDS, "updates": Updater.LATENCY})
        of_b = pipeline.place("entry", column, "of_b").at("gradients")
        takes_b = pipeline.place("entry", column | self.saved.of_b, "takes_b").at("gradients")
        entry = pipeline.place("entry", entry, "entry", reset_less=True).at("gradients")
        address = Signal.like(self.updates.address, reset_less=True)
        m.d.sync += address.eq(Mux(of_b, mapping.a_beats + entry, number << exact_log2(words)))
        m.d.comb += [
            self.updates.address.eq(pipeline.place("updaters", address, "address", reset_less=True).at("updates")),
            self.updates.write.eq(Cat(updater.done for updater in self.updaters)),
            self.updates.beats.eq(Cat(updater.o for updater in self.updaters)),
            self.clipped.eq(sum(clipped[1:], clipped[0])),
        ]
        if self.urng:
            self._draw(m, self.urng)
        inputs = [
            (data_register(m, updater.sums, "sums_data"), data_register(m, updater.parameters, "parameters_data"))
            for updater in self.updaters
        ]
        for lane in range(VALUES * words):
            (sums, parameters), into = inputs[lane // VALUES], lane % VALUES
            starts = range(lane, mapping.lanes * mapping.columns, VALUES * words)
            chosen = parts[lane // of_part]
            total = Array(held[start] for start in starts)[chosen]
            value = Array(self.parameters[start] for start in starts)[chosen]
            if lane < VALUES:
                b_value, b_total = (self.b.value[lane], self.b.gradient[lane]) if lane < mapping.ranks else (0, 0)
                total, value = Mux(takes_b, b_total, total), Mux(takes_b, b_value, value)
            m.d.sync += [sums[into].eq(total), parameters[into].eq(value)]
        m.d.comb += self.saved.beats.eq(Cat(parameters for _, parameters in inputs))
        for lane, updater in enumerate(self.updaters):
            m.d.sync += updater.valid.eq(busy if lane else busy | of_b)
        return row

    def _draw(self, m: Module, urng: UrngSpec) -> None:
        """Give the updaters the random numbers of a position in each cycle of updates; the last number is unused."""
        generator = Urng(urng)
        m.submodules.urng = ResetInserter(self.restart)(generator)
        numbers = elements(generator.o.payload.number, urng.streams()["o"].fields[0])
        m.d.comb += generator.o.ready.eq(self.updaters[0].ask)
        into = [value for updater in self.updaters for value in updater.noise]
        m.d.comb += [value.eq(number) for value, number in zip(into, numbers, strict=False)]
