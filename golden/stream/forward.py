"""Forward pass of a transformer in integers: exact products, one rounding a sum, counters of saturations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

import numpy as np

from ..errors import UserError
from ..fixed import Q8_16, Format, Integers, Narrower
from ..nn.arithmetic.forward import average
from ..nn.arithmetic.products import PRODUCTS, Product
from ..transformer.blocks import (
    Activation,
    Gate,
    Linear,
    Normalisation,
    Parameters,
    PoolTokens,
    Positions,
    Residual,
    SelfAttention,
    Transformer,
    UnitLength,
)
from .attention import Q6_12, Attention, causal, rotated, rotations
from .functions import ACTIVATIONS
from .norms import Q11_16, Norm, unit_rows

WEIGHT_BITS = 18
"""Bits of stationary weights and of a norm's factors: a DSP's narrow port."""
SHIFT = Format(3, 0, signed=False)
"""Number of fraction bits that an operation's outputs lack of their format, as the hardware takes it."""

TransformerIntegers = Mapping[tuple[int, str], Integers]
"""Tensors of integers by number of the operation and kind: weights and factors in their format, others in Q8.16."""


def is_weight(name: tuple[int, str]) -> bool:
    """Tell whether a tensor is multiplied: a matrix, or a norm's factors."""
    return name[1] in ("weight", "factor")


def weight_formats(parameters: Parameters, bits: int = WEIGHT_BITS) -> dict[tuple[int, str], Format]:
    """Choose the format of each matrix and each norm's factors: the finest that holds 9/8 of its largest value.

    The rest of its range is for what training adds.

    Parameters
    ----------
    parameters : mapping
        Tensors of floats.
    bits : int
        Bits of each.
    """
    found = {}
    for name, values in parameters.items():
        if is_weight(name):
            octave = int(np.frexp(np.abs(values).max() * 9 / 8)[1])
            integer = min(max(octave + 1, 1), bits)
            found[name] = Format(integer, bits - integer)
    return found


@dataclass(frozen=True)
class IntegerTransformer:
    """A transformer as the hardware computes it.

    Activations are Q8.16. What a residual adds, its sum and a norm's inputs are Q11.16. Keys and values are Q6.12, as
    they are stationary in the array. So are weights, each tensor in a format of its own: where the range of one decides
    for all, what is added to a weight is rounded too coarsely, and a slope is 3 % off instead of 1 %.

    Activations of some models are larger. Outputs of an operation then have a format of as many bits, shifted.

    Parameters
    ----------
    network : Transformer
    weights : mapping of (int, str) to Format
        Of each matrix and each norm's factors: at most 18 bits, see `weight_formats`.
    activations : mapping of int to Format
        Formats of outputs other than those above, by number of the operation, see `golden.stream.calibration`.

    Raises
    ------
    UserError
        If a format is wider than the port, or an operation has no integers.
    """

    network: Transformer
    weights: Mapping[tuple[int, str], Format]
    activations: Mapping[int, Format] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.network.parameter_shapes:
            if (form := self.format_of(name)).width > WEIGHT_BITS and is_weight(name):
                raise self.network.error(name[0], f"has a {name[1]} of {form}, which has more than {WEIGHT_BITS} bits")
        _ = self.formats, self._norms

    @cached_property
    def formats(self) -> tuple[Format, ...]:
        """Format of each operation's outputs: what their readers take."""
        network, found = self.network, [Q8_16] * len(self.network.operations)
        for number, (operation, reads) in enumerate(zip(network.operations, network.reads, strict=True)):
            if isinstance(operation, Residual | Positions):
                found[number] = Q11_16
                for read in reads:
                    if read >= 0 and isinstance(network.operations[read], Linear):
                        found[read] = Q11_16
        for number, operation in enumerate(network.operations):
            if isinstance(operation, SelfAttention):
                for read in network.reads[number][1:]:
                    if not isinstance(network.operations[read], Linear) or found[read] != Q8_16:
                        raise network.error(number, "has keys or values that are not a linear layer's alone")
                    found[read] = Q6_12
            elif isinstance(operation, Normalisation | Residual | Positions):
                continue
            elif any(read >= 0 and found[read] != Q8_16 for read in network.reads[number]):
                raise network.error(number, f"reads {Q11_16}, which a norm or a residual does")
        for number, form in self.activations.items():
            if form.width != found[number].width or form.fraction > found[number].fraction:
                raise network.error(number, f"has outputs of {form}, which is not {found[number]} shifted to the right")
            found[number] = form
        for number, operation in enumerate(network.operations):
            if isinstance(operation, PoolTokens):
                found[number] = self._given(number, found)[0]
        return tuple(found)

    def _given(self, number: int, formats: Sequence[Format]) -> list[Format]:
        """Formats of what an operation reads."""
        return [Q8_16 if read < 0 else formats[read] for read in self.network.reads[number]]

    @cached_property
    def _norms(self) -> dict[int, Norm]:
        found = {}
        for number, operation in enumerate(self.network.operations):
            if isinstance(operation, Normalisation):
                form = self._given(number, self.formats)[0]
                # fewer integer bits take part in the same sums
                form = Q11_16 if form.fraction == Q11_16.fraction else form
                try:
                    found[number] = Norm(self.network.inputs(number), operation.eps, operation.centred, form)
                except UserError as error:
                    raise self.network.error(number, f"cannot be computed: {error}") from None
        return found

    def format_of(self, name: tuple[int, str]) -> Format:
        """Format of a tensor: its own for weights and factors, Q8.16 for biases and positions."""
        return self.weights[name] if is_weight(name) else Q8_16

    def convert(self, parameters: Parameters) -> tuple[TransformerIntegers, dict[tuple[int, str], int]]:
        """Convert tensors to integers, and count those values of each that saturate; only what does is named.

        Raises
        ------
        UserError
            If the tensors are not the network's.
        """
        self.network.check(parameters)
        found: dict[tuple[int, str], Integers] = {}
        clipped: dict[tuple[int, str], int] = {}
        for name, values in parameters.items():
            form = self.format_of(name)
            found[name] = form.from_float(values)
            scaled = np.rint(np.ldexp(values.astype(np.float64), form.fraction))
            if count := int(np.count_nonzero((scaled > form.maximum) | (scaled < form.minimum))):
                clipped[name] = count
        return found, clipped

    def run(
        self,
        integers: TransformerIntegers,
        rows: Integers,
        lengths: tuple[int, ...],
        product: Product = PRODUCTS["blas"],
        operations: range | None = None,
    ) -> tuple[list[Integers], list[int]]:
        """Compute the outputs of all operations, or of neighbouring ones.

        Parameters
        ----------
        integers : mapping
            From `convert`.
        rows : array of int, (tokens of all sentences, features)
            Q8.16; for operations behind a cut what passes it, see `Transformer.crossing`, in that one's format.
        lengths : tuple of int
            Tokens of each sentence: there is no padding.
        product : callable
            One of `PRODUCTS`.
        operations : range, optional
            Numbers of those to compute.

        Returns
        -------
        outputs : list of array of int64
            In `formats`.
        saturations : list of int
            Values of each operation that were clipped.

        Raises
        ------
        UserError
            If a sentence is empty or longer than the positions.
        """
        self.network.check_lengths(lengths)
        outputs: list[Integers] = []
        saturations = []
        some = operations or range(len(self.network.operations))
        for number in some:
            counted = Narrower()
            given = [rows if read < some.start else outputs[read - some.start] for read in self.network.reads[number]]
            own = {kind: integers[number, kind] for kind in self.network.kinds[number]}
            outputs.append(self._operation(number, given, own, lengths, product, counted))
            saturations.append(counted.saturations)
        return outputs, saturations

    def _operation(
        self,
        number: int,
        given: list[Integers],
        own: dict[str, Integers],
        lengths: tuple[int, ...],
        product: Product,
        narrow: Narrower,
    ) -> Integers:
        """Compute one operation's outputs."""
        operation, result = self.network.operations[number], self.formats[number]
        forms = self._given(number, self.formats)
        match operation:
            case Linear():
                weight, exact = self.weights[number, "weight"], product(given[0], own["weight"].T)
                fraction = forms[0].fraction + weight.fraction
                if operation.bias:
                    lacking = max(0, Q8_16.fraction - fraction)
                    fraction += lacking
                    exact = (exact << lacking) + (own["bias"] << (fraction - Q8_16.fraction))
                return narrow(exact, fraction, result)
            case Normalisation():
                gain = self.weights[number, "factor"]
                return self._norms[number].run(given[0], own["factor"], own.get("bias"), gain, narrow, result)
            case SelfAttention():
                return self._attention(operation, given, forms, result, lengths, narrow)
            case Activation("relu-squared"):
                return narrow(np.maximum(given[0], 0) ** 2, 2 * forms[0].fraction, result)
            case Activation():
                return narrow(ACTIVATIONS[operation.kind](aligned(given[0], forms[0])), Q8_16, result)
            case Gate():
                return narrow(given[0] * given[1], forms[0].fraction + forms[1].fraction, result)
            case Residual():
                return narrow(aligned(given[0], forms[0]) + aligned(given[1], forms[1]), Q11_16, result)
            case Positions():
                places = np.concatenate([np.arange(length) for length in lengths])
                return narrow(aligned(given[0], forms[0]) + own["position"][places], Q11_16, result)
            case PoolTokens():
                sentences = np.split(given[0], np.cumsum(lengths)[:-1])
                if operation.kind == "mean":
                    return np.stack([average(one.sum(axis=0), len(one)) for one in sentences])
                return np.stack([one[0 if operation.kind == "first" else -1] for one in sentences])
            case UnitLength():
                return unit_rows(given[0], narrow)

    @staticmethod
    def _attention(
        operation: SelfAttention,
        given: list[Integers],
        forms: list[Format],
        result: Format,
        lengths: tuple[int, ...],
        narrow: Narrower,
    ) -> Integers:
        """Compute the contexts of all sentences, of neighbours of one length at once."""
        queries_form, keys_form, values_form = forms
        head = Attention(operation.width, operation.scale, queries_form, keys_form, values_form, result)
        found: list[Integers] = []
        groups = [(len([*same]), tokens) for tokens, same in groupby(lengths)]
        ends = np.cumsum([count * tokens for count, tokens in groups])[:-1]
        base = operation.rotary_base
        longest = () if base is None else rotations(np.arange(max(lengths)), operation.width, base)
        for (count, tokens), *group in zip(groups, *(np.split(one, ends) for one in given), strict=True):
            # (sentences, heads, tokens, width)
            queries, keys, values = (one.reshape(count, tokens, -1, operation.width).swapaxes(1, 2) for one in group)
            if longest:
                turns = longest[0][:tokens], longest[1][:tokens]
                queries, keys = rotated(queries, turns, queries_form, narrow), rotated(keys, turns, keys_form, narrow)
            shared = operation.heads // operation.key_heads
            keys, values = (one.repeat(shared, axis=1) for one in (keys, values))
            seen = causal(tokens, tokens) if operation.causal else None
            contexts = head.context(head.exponents(queries, keys, narrow, seen), values, narrow, seen)
            found.append(contexts.swapaxes(1, 2).reshape(count * tokens, -1))
        return np.concatenate(found)


def aligned(values: Integers, form: Format) -> Integers:
    """Shift values to 16 fraction bits: what a sum or a table takes."""
    return values << (Q8_16.fraction - form.fraction)
