"""Forward pass of a transformer in integers: exact products, one rounding per sum, counters of saturations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

import numpy as np

from ..errors import UserError
from ..fixed import Q8_16, Format, Integers, Narrower, divided
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
"""Bits of stationary weights and of a norm's factors: a DSP's 18-bit port."""
SHIFT = Format(3, 0, signed=False)
"""Format of an instruction's shift: fraction bits by which an output is coarser than its base format."""

TransformerIntegers = Mapping[tuple[int, str], Integers]
"""Integer tensors by operation and kind: weights and factors in their own format, others in Q8.16."""


def is_weight(name: tuple[int, str]) -> bool:
    """True for multiplied tensors: matrices and a norm's factors."""
    return name[1] in ("weight", "factor")


def weight_formats(parameters: Parameters, bits: int = WEIGHT_BITS) -> dict[tuple[int, str], Format]:
    """Format of each matrix and each norm's factors: the finest of `bits` bits that holds 9/8 of the largest value.

    Training may use the rest of the range.
    """
    formats = {}
    for name, values in parameters.items():
        if is_weight(name):
            octave = int(np.frexp(np.abs(values).max() * 9 / 8)[1])
            integer = min(max(octave + 1, 1), bits)
            formats[name] = Format(integer, bits - integer)
    return formats


@dataclass(frozen=True)
class IntegerTransformer:
    """Integer transformer, bit for bit as the hardware computes.

    Activations are Q8.16. Inputs and outputs of a residual and inputs of a norm are Q11.16. Keys and values are
    stationary in the array: Q6.12. Each weight tensor has its own 18-bit format. With one format for all, the largest
    range sets the rounding, and a projected gradient is 3 % off instead of 1 %. Raises `UserError` if a format is wider
    than the port, or an operation has no integer model.

    Parameters
    ----------
    weights : mapping of (int, str) to Format
        Formats of matrices and norm factors, at most 18 bits; see `weight_formats`.
    activations : mapping of int to Format
        Formats of larger outputs, by operation: same width, fewer fraction bits; see `golden.stream.calibration`.
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
        network, formats = self.network, [Q8_16] * len(self.network.operations)
        for number, (operation, reads) in enumerate(zip(network.operations, network.reads, strict=True)):
            if isinstance(operation, Residual | Positions):
                formats[number] = Q11_16
                for read in reads:
                    if read >= 0 and isinstance(network.operations[read], Linear):
                        formats[read] = Q11_16
        for number, operation in enumerate(network.operations):
            if isinstance(operation, SelfAttention):
                for read in network.reads[number][1:]:
                    if not isinstance(network.operations[read], Linear) or formats[read] != Q8_16:
                        raise network.error(number, "has keys or values that are not a linear layer's alone")
                    formats[read] = Q6_12
            elif isinstance(operation, Normalisation | Residual | Positions):
                continue
            elif any(read >= 0 and formats[read] != Q8_16 for read in network.reads[number]):
                raise network.error(number, f"reads {Q11_16}, which a norm or a residual does")
        for number, form in self.activations.items():
            if form.width != formats[number].width or form.fraction > formats[number].fraction:
                raise network.error(
                    number, f"has outputs of {form}, which is not {formats[number]} shifted to the right"
                )
            formats[number] = form
        for number, operation in enumerate(network.operations):
            if isinstance(operation, PoolTokens):
                formats[number] = self._given(number, formats)[0]
        return tuple(formats)

    def _given(self, number: int, formats: Sequence[Format]) -> list[Format]:
        return [Q8_16 if read < 0 else formats[read] for read in self.network.reads[number]]

    @cached_property
    def _norms(self) -> dict[int, Norm]:
        norms = {}
        for number, operation in enumerate(self.network.operations):
            if isinstance(operation, Normalisation):
                form = self._given(number, self.formats)[0]
                # formats with fewer integer bits share the Q11.16 sums
                form = Q11_16 if form.fraction == Q11_16.fraction else form
                try:
                    norms[number] = Norm(self.network.inputs(number), operation.eps, operation.centred, form)
                except UserError as error:
                    raise self.network.error(number, f"cannot be computed: {error}") from None
        return norms

    def format_of(self, name: tuple[int, str]) -> Format:
        """Format of a tensor: Q8.16 for biases and positions."""
        return self.weights[name] if is_weight(name) else Q8_16

    def convert(self, parameters: Parameters) -> tuple[TransformerIntegers, dict[tuple[int, str], int]]:
        """Integers of all tensors, and the number of clipped values of each tensor that saturates.

        Raises `UserError` if names or shapes are not the network's.
        """
        self.network.check(parameters)
        integers: dict[tuple[int, str], Integers] = {}
        clipped: dict[tuple[int, str], int] = {}
        for name, values in parameters.items():
            form = self.format_of(name)
            integers[name] = form.from_float(values)
            scaled = np.rint(np.ldexp(values.astype(np.float64), form.fraction))
            if count := int(np.count_nonzero((scaled > form.maximum) | (scaled < form.minimum))):
                clipped[name] = count
        return integers, clipped

    def run(
        self,
        integers: TransformerIntegers,
        rows: Integers,
        lengths: tuple[int, ...],
        product: Product = PRODUCTS["blas"],
        operations: range | None = None,
    ) -> tuple[list[Integers], list[int]]:
        """Outputs of all operations, or of the contiguous range `operations`.

        Raises `UserError` if a sentence is empty or longer than the positions.

        Parameters
        ----------
        integers : mapping
            From `convert`.
        rows : array of int, (tokens of all sentences, features)
            Q8.16; for a range that begins at a cut, the values at the cut in their own format, see
            `Transformer.crossing`.
        lengths : tuple of int
            Tokens of each sentence, without padding.
        product : callable
            One of `PRODUCTS`.

        Returns
        -------
        outputs : list of array of int64
            In `formats`.
        saturations : list of int
            Clipped values of each operation.
        """
        self.network.check_lengths(lengths)
        outputs: list[Integers] = []
        saturations = []
        chosen = operations or range(len(self.network.operations))
        for number in chosen:
            counted = Narrower()
            inputs = [
                rows if read < chosen.start else outputs[read - chosen.start] for read in self.network.reads[number]
            ]
            tensors = {kind: integers[number, kind] for kind in self.network.kinds[number]}
            outputs.append(self._operation(number, inputs, tensors, lengths, product, counted))
            saturations.append(counted.saturations)
        return outputs, saturations

    def _operation(
        self,
        number: int,
        inputs: list[Integers],
        tensors: dict[str, Integers],
        lengths: tuple[int, ...],
        product: Product,
        narrow: Narrower,
    ) -> Integers:
        operation, result = self.network.operations[number], self.formats[number]
        forms = self._given(number, self.formats)
        match operation:
            case Linear():
                weight, exact = self.weights[number, "weight"], product(inputs[0], tensors["weight"].T)
                fraction = forms[0].fraction + weight.fraction
                if operation.bias:
                    lacking = max(0, Q8_16.fraction - fraction)
                    fraction += lacking
                    exact = (exact << lacking) + (tensors["bias"] << (fraction - Q8_16.fraction))
                return narrow(exact, fraction, result)
            case Normalisation():
                gain = self.weights[number, "factor"]
                return self._norms[number].run(inputs[0], tensors["factor"], tensors.get("bias"), gain, narrow, result)
            case SelfAttention():
                return self._attention(operation, inputs, forms, result, lengths, narrow)
            case Activation("relu-squared"):
                return narrow(np.maximum(inputs[0], 0) ** 2, 2 * forms[0].fraction, result)
            case Activation():
                return narrow(ACTIVATIONS[operation.kind](aligned(inputs[0], forms[0])), Q8_16, result)
            case Gate():
                return narrow(inputs[0] * inputs[1], forms[0].fraction + forms[1].fraction, result)
            case Residual():
                return narrow(aligned(inputs[0], forms[0]) + aligned(inputs[1], forms[1]), Q11_16, result)
            case Positions():
                places = np.concatenate([np.arange(length) for length in lengths])
                return narrow(aligned(inputs[0], forms[0]) + tensors["position"][places], Q11_16, result)
            case PoolTokens():
                sentences = np.split(inputs[0], np.cumsum(lengths)[:-1])
                if operation.kind == "mean":
                    return np.stack([divided(sentence.sum(axis=0), len(sentence)) for sentence in sentences])
                return np.stack([sentence[0 if operation.kind == "first" else -1] for sentence in sentences])
            case UnitLength():
                return unit_rows(inputs[0], narrow)

    @staticmethod
    def _attention(
        operation: SelfAttention,
        inputs: list[Integers],
        forms: list[Format],
        result: Format,
        lengths: tuple[int, ...],
        narrow: Narrower,
    ) -> Integers:
        """Contexts of all sentences; neighbours of equal length are computed together."""
        queries_form, keys_form, values_form = forms
        head = Attention(operation.width, operation.scale, queries_form, keys_form, values_form, result)
        contexts_of_groups: list[Integers] = []
        groups = [(len([*same]), tokens) for tokens, same in groupby(lengths)]
        ends = np.cumsum([count * tokens for count, tokens in groups])[:-1]
        base = operation.rotary_base
        longest = () if base is None else rotations(np.arange(max(lengths)), operation.width, base)
        for (count, tokens), *group in zip(groups, *(np.split(rows, ends) for rows in inputs), strict=True):
            # (sentences, heads, tokens, width)
            queries, keys, values = (rows.reshape(count, tokens, -1, operation.width).swapaxes(1, 2) for rows in group)
            if longest:
                turns = longest[0][:tokens], longest[1][:tokens]
                queries, keys = rotated(queries, turns, queries_form, narrow), rotated(keys, turns, keys_form, narrow)
            shared = operation.heads // operation.key_heads
            keys, values = (rows.repeat(shared, axis=1) for rows in (keys, values))
            seen = causal(tokens, tokens) if operation.causal else None
            contexts = head.context(head.exponents(queries, keys, narrow, seen), values, narrow, seen)
            contexts_of_groups.append(contexts.swapaxes(1, 2).reshape(count * tokens, -1))
        return np.concatenate(contexts_of_groups)


def aligned(values: Integers, form: Format) -> Integers:
    """Values shifted to 16 fraction bits."""
    return values << (Q8_16.fraction - form.fraction)
