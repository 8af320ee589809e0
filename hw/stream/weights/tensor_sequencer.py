"""RTL of `tensor_sequencer`: a state machine that steps through the tensors of an instruction."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.utils import exact_log2

from ....golden.fixed import Q8_16
from ....golden.stream.frozen_base import BLOCK
from ....golden.stream.instruction import NO_WORD, Kind
from ....golden.stream.machine.limits import whole
from ....golden.stream.weights.tensor_sequencer import TensorSequencerSpec
from ....golden.stream.weights.tile_dequant import BEAT_VALUES, BLOCKS_BITS, LENGTH_BITS, TensorKind
from ....golden.stream.weights.tile_weights import OffsetKind
from ...ports import layout, members
from ...primitives.registers import data_register
from ...probe import probe

_LANE_TILES_BITS = BLOCKS_BITS + 3
"""Bits of the number of tiles in an output group: a record has at most 8 tiles."""


class TensorSequencer(wiring.Component):
    """Offer the words of a tensor on all streams at once; go to the next tensor once all words were accepted.

    A tensor takes 3 cycles if all streams are ready. An instruction is accepted once all words of the previous
    instruction were accepted. Its first tensor comes after a cycle for each bit of its number of input tiles.
    """

    def __init__(self, spec: TensorSequencerSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        """Build the RTL; longer than most functions, as all states of the state machine share the registers."""
        m = Module()
        spec = self.spec
        held = Signal(layout(spec.streams()["operation"]), reset_less=True)
        # tensors left: a bias; `main`, a matrix or factors; rows of a table
        bias, main, rows = (Signal(bits, reset_less=True) for bits in (1, 1, len(held.longest)))
        address, row_word = (Signal(len(field), reset_less=True) for field in (held.beat, held.word))
        line, first = (Signal(range(most), reset_less=True) for most in (spec.columns, spec.numbers))
        # two serial multiplications in parallel: output groups by records of a group, and by tiles of a group
        groups = Signal(LENGTH_BITS, reset_less=True)
        records, tiles = (Signal(bits, reset_less=True) for bits in (BLOCKS_BITS, _LANE_TILES_BITS))
        length, words = (Signal(LENGTH_BITS, reset_less=True) for _ in range(2))
        vector = Signal(LENGTH_BITS, reset_less=True)

        offer = self.operation.payload
        ports = (self.tensors, self.beats, self.offsets, self.corrections)
        for port in ports:
            with m.If(port.ready):
                m.d.sync += port.valid.eq(0)
        tensor, count, request = self._payloads(m, held, address)
        # timing: `idle` enables many registers, so it is a register beside the state
        idle = Signal(init=1)
        m.d.comb += self.operation.ready.eq(idle)
        with m.If(idle):
            has = offer.kind.matches(Kind.LINEAR, Kind.NORM)
            table = (offer.kind == Kind.POSITIONS) | ((offer.kind == Kind.ATTENTION) & offer.rotary)
            m.d.sync += [
                held.eq(offer),
                bias.eq(has & offer.biased),
                main.eq(has),
                rows.eq(Mux(table, offer.longest, 0)),
                address.eq(Mux(has, offer.beat, offer.table)),
                row_word.eq(offer.position_word),
                Cat(line, first).eq(0),
                idle.eq(~self.operation.valid),
            ]
        with m.FSM() as fsm:
            with m.State("IDLE"), m.If(self.operation.valid):
                m.next = "SIZES"
            with m.State("SIZES"):
                m.d.sync += [
                    groups.eq(whole(held.outputs, spec.columns)),
                    records.eq(whole(held.inputs, BLOCK)),
                    tiles.eq(whole(held.inputs, spec.lanes)),
                    Cat(length, words).eq(0),
                    vector.eq(whole(Mux(held.kind == Kind.ATTENTION, held.width, held.outputs), BEAT_VALUES)),
                ]
                m.next = "MULTIPLY"
            with m.State("MULTIPLY"):
                m.d.sync += [groups.eq(Cat(0, groups)), records.eq(records[1:]), tiles.eq(tiles[1:])]
                for multiplier, product in ((records, length), (tiles, words)):
                    with m.If(multiplier[0]):
                        m.d.sync += product.eq(product + groups)
                with m.If(tiles == 0):
                    m.next = "TENSOR"
            with m.State("TENSOR"):
                m.next = "GIVE"
                with m.If(~(bias | main | rows.any())):
                    m.d.sync += idle.eq(1)
                    m.next = "IDLE"
                with m.Else():
                    self._tensor(m, held, (bias, main), (length, words, vector), row_word, (tensor, count, request))
                    m.d.sync += tensor.first.eq(first)
            with m.State("GIVE"), m.If(~Cat(port.valid for port in ports).any()):
                m.next = "TENSOR"
                m.d.sync += [address.eq(address + count), bias.eq(0), main.eq(main & bias)]
                with m.If(~(bias | main)):
                    wraps = line == spec.columns - 1
                    m.d.sync += [
                        rows.eq(rows - 1),
                        line.eq(line + 1),
                        first.eq(Mux(wraps | (first == spec.numbers - 1), 0, first + 1)),
                        row_word.eq(row_word + Mux(wraps, whole(held.outputs, spec.lanes), 0)),
                    ]
        probe(self, fsm, idle=idle, bias=bias, main=main, rows=rows)
        return m

    def _tensor(
        self,
        m: Module,
        held: Any,
        remaining: tuple[Signal, Signal],
        sizes: tuple[Signal, Signal, Signal],
        row_word: Signal,
        registers: tuple[Any, Signal, dict[str, Signal]],
    ) -> None:
        """Set all registers for the next tensor and offer it; in this order a bias, a matrix or factors, table rows."""
        spec, dequant = self.spec, self.spec.weights.dequant
        (bias, main), (length, words, vector), (tensor, count, request) = remaining, sizes, registers
        factors, rows = ~bias & main, ~bias & ~main
        matrix = factors & (held.kind == Kind.LINEAR)
        corrected = matrix & (held.corrections != 0)
        coded = matrix & held.coded
        in_nf4 = sum((length.shift_left(exact_log2(beats)) for beats in (dequant.scale_beats, dequant.code_beats)), 0)
        with_values = length.shift_left(exact_log2(dequant.value_beats))
        tuned = Mux(bias, _tuned(held.bias_word), Mux(main, _tuned(held.word), _tuned(held.position_word)))
        tuned = tuned & (bias | main | (held.kind == Kind.POSITIONS))
        of_tensor = Mux(rows, OffsetKind.ROW, Mux(corrected, OffsetKind.CORRECTIONS, OffsetKind.TILES))
        each = Mux(rows, whole(held.outputs, spec.lanes), whole(held.outputs, spec.weights.weights))
        of_matrix = Mux(held.corrections != 0, whole(held.corrections, spec.weights.width), words)
        last_inputs = (held.inputs - 1)[: exact_log2(BLOCK)]
        of_main = Mux(matrix, Mux(coded, TensorKind.NF4, TensorKind.MATRIX), TensorKind.FACTORS)
        m.d.sync += [
            tensor.kind.eq(Mux(factors, of_main, TensorKind.VALUES)),
            tensor.length.eq(Mux(matrix, length, vector)),
            tensor.blocks.eq(Mux(matrix, whole(held.inputs, BLOCK), 1)),
            tensor.tiles.eq(Mux(matrix, last_inputs[exact_log2(spec.lanes) :] + 1, 1)),
            tensor.offsets.eq(Mux(tuned, of_tensor, OffsetKind.NONE)),
            tensor.corrections.eq(Mux(matrix, held.corrections, 0)),
            count.eq(Mux(matrix, Mux(coded, in_nf4, with_values), vector)),
            request["word"].eq(Mux(bias, held.bias_word, Mux(main, held.word, row_word))),
            request["words"].eq(Mux(matrix, of_matrix, each)),
            request["fraction"].eq(Mux(factors, held.fraction, Q8_16.fraction)),
            request["wide"].eq(~factors),
            self.tensors.valid.eq(1),
            self.beats.valid.eq(1),
            self.offsets.valid.eq(tuned),
            self.corrections.valid.eq(corrected),
        ]

    def _payloads(self, m: Module, held: Any, address: Signal) -> tuple[Any, Signal, dict[str, Signal]]:
        """Drive the payloads from the tensor's registers and from the instruction."""
        beats, offsets, corrections = self.beats.payload, self.offsets.payload, self.corrections.payload
        tensor, count = data_register(m, self.tensors.payload, "tensor"), data_register(m, beats.beats, "count")
        request = {
            name: data_register(m, getattr(offsets, name), f"request_{name}")
            for name in ("word", "words", "fraction", "wide")
        }
        m.d.comb += [
            beats.beat.eq(address),
            *(getattr(beats, name).eq(getattr(tensor, name)) for name in ("kind", "blocks", "tiles")),
            beats.number.eq(held.number),
            offsets.factor.eq(held.amount),
            corrections.beat.eq(held.correction_beat),
            corrections.weights.eq(held.corrections),
        ]
        if self.spec.tables > 1:
            m.d.comb += offsets.table.eq(held.part)
        return tensor, count, request


def _tuned(word: Value) -> Value:
    """High if a tensor is tuned: it has perturbation words."""
    return word != NO_WORD
