"""Operand issue of a forward engine: activations, weights, flags and biases of a word, aligned for the array."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring

from ....golden.fixed import Q4_12
from ....golden.nn.array import latency
from ....golden.nn.array.mapping import Mapping
from ...primitives.pipeline import delayed
from ..interfaces import PARAMETER
from ..mac import MacArray
from ..memories.activation_memory import ActivationBanks
from ..sequencer import Sequencer
from .array_access import ArrayWord
from .offset_parameters import OffsetParameters
from .parameters import FrozenParameters, ParameterMemories, ParameterRead


class OperandIssue:
    """Reads of activations and parameters for the sequencer's words.

    Activations and weights reach the array `ActivationBanks.LATENCY` cycles after their addresses, biases in the cycle
    of their addition.
    """

    def __init__(self, mapping: Mapping, array: MacArray, parameters: FrozenParameters | OffsetParameters) -> None:
        self.mapping, self.array, self.parameters = mapping, array, parameters

    def issue(
        self,
        m: Module,
        engine: wiring.Component,
        activations: ActivationBanks,
        sequencer: Sequencer,
        platform: object,
    ) -> ArrayWord:
        """Add the reads; returns the word for the array."""
        mapping, read = self.mapping, ActivationBanks.LATENCY
        memories = self.parameters.store(m, engine, platform)
        self._addressed(m, memories, activations, sequencer)
        halved = delayed(m, sequencer.word.halved, read, "halved") if mapping.has_halves else Const(0)
        within = delayed(m, sequencer.word.within, read, "within") if mapping.has_within else Const(0)
        residual = delayed(m, sequencer.word.residual, read - 1, "residual") if mapping.has_residuals else Const(0)
        control = ParameterRead(sequencer, residual, self.array.bias_cycles)
        weights, biases = self.parameters.read(m, engine, memories, control)
        if mapping.has_residuals:
            weights = self._identity(weights, halved, within, delayed(m, residual, 1, "identity"))
        flags = {name: delayed(m, getattr(sequencer.word, name), read, name) for name in ("enable", "first", "last")}
        words, copies = self.array.words_per_cycle, activations.copies
        odds = [activations.odd] if copies == 1 else list(activations.odd)
        each = [self._activations(activations, odd, halved).replicate(words // copies) for odd in odds]
        word = each[0] if copies == 1 else Cat(each)
        return ArrayWord({"x": word, "w": weights, **flags, "within": within}, halved, biases)

    def _addressed(
        self, m: Module, memories: ParameterMemories, activations: ActivationBanks, sequencer: Sequencer
    ) -> None:
        """Address the memories; parameter addresses are delayed to the longer read of activations."""
        address_delay = ActivationBanks.LATENCY - self.parameters.latency
        m.d.comb += [
            activations.address.eq(sequencer.word.address),
            memories.weights.address.eq(delayed(m, sequencer.word.weight, address_delay, "weight", reset_less=True)),
        ]
        group = delayed(m, sequencer.word.bias, address_delay + self.array.bias_cycles, "bias", reset_less=True)
        if self.mapping.most_parts > 1:
            group = self._next_part(m, group)
        m.d.comb += memories.biases.addr.eq(group)

    def _next_part(self, m: Module, group: Value) -> Value:
        """Group of biases to read: the next group for a further part of a sum."""
        groups = range(self.mapping.groups)
        following, number = Signal(groups, reset_less=True), Signal(groups, name="group_number")
        begins = self.array.bias_cycles - 1 - latency.within_latency()
        further = delayed(m, self.array.parts.further, begins - self.parameters.latency, "further")
        m.d.comb += number.eq(Mux(further, following, group))
        m.d.sync += following.eq(number + 1)
        return number

    def _activations(self, activations: ActivationBanks, odd: Value, halved: Value) -> Value:
        """Activations after the last rotation; for sums of half the lanes, both halves have the lower half."""
        lanes, half = self.mapping.lanes, self.mapping.lanes // 2
        word: list[Value] = [
            Mux(odd, activations.word[(lane + 1) % lanes], activations.word[lane]) for lane in range(lanes)
        ]
        if self.mapping.has_halves:
            pairs = zip(word[:half], word[half:], strict=True)
            word = [*word[:half], *(Mux(halved, lower, upper) for lower, upper in pairs)]
        return Cat(word)

    def _identity(self, word: Value, halved: Value, within: Value, residual: Value) -> Value:
        """Weights of the word; for a residual 1.0 at the lane and column of each channel."""
        mapping, half = self.mapping, self.mapping.lanes // 2
        whole = [(column, column) for column in range(mapping.columns)]
        identity = self._ones(whole)
        if mapping.has_halves:
            halves = self._ones([*whole, *((half + mapping.columns + column, column) for column, _ in whole)])
            identity = Mux(halved, halves, identity)
        if mapping.has_within:
            lanes = self._ones([(lane, 0) for lane in range(mapping.lanes)])
            identity = Mux(within, lanes, identity)
        return self.parameters.replaced(word, residual, identity)

    def _ones(self, places: list[tuple[int, int]]) -> Value:
        """Word of weights: 1.0 at these lanes and columns, else 0."""
        columns, width = self.mapping.columns, PARAMETER.width
        ones = sum(1 << (lane * columns + column) * width + Q4_12.fraction for lane, column in places)
        return Const(ones, self.mapping.lanes * columns * width)
