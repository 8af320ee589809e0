"""Interpreter of a program: executes its instructions with golden functions, on rows of two memories."""

import numpy as np

from fabtune.golden.fixed import Q8_16, Narrower, divided
from fabtune.golden.stream.attention import Q6_12, ROTATION, Attention, causal
from fabtune.golden.stream.functions import ACTIVATIONS as FUNCTIONS
from fabtune.golden.stream.instruction import ACTIVATIONS, POOLS, Join, Kind, RowAddress, shifted_format
from fabtune.golden.stream.machine.layout import vector_beats
from fabtune.golden.stream.norms import NORMALISED, Q11_16, Norm, unit_rows
from fabtune.golden.stream.values.requantize import FORMATS
from fabtune.golden.stream.words import tile_places


class Machine:
    """Memories, and stream tensors by operation number."""

    def __init__(self, program, tensors, body):
        self.program, self.tensors, self.body = program, tensors, body
        self.rows = {}

    def run(self, inputs, lengths):
        """Logits of the sentences' rows."""
        self.lengths, self.narrow = lengths, Narrower()
        self.write(self.program.inputs, inputs)
        for one in self.program.instructions:
            self.write(one.destination, self.result(one))
        return self.read(one.destination, one.outputs), self.narrow.saturations

    def width(self, wide):
        return self.program.size.columns if wide else self.program.size.lanes

    def write(self, buffer, values):
        """Write values into rows: each row lists all tokens' values, up to the memory's width."""
        wide, first = RowAddress.of(buffer)
        width = self.width(wide)
        padded = np.pad(values, ((0, 0), (0, -values.shape[1] % width)))
        for row in range(padded.shape[1] // width):
            self.rows[wide, first + row] = padded[:, row * width : (row + 1) * width]

    def read(self, buffer, features):
        wide, first = RowAddress.of(buffer)
        count = -(-features // self.width(wide))
        return np.concatenate([self.rows[wide, first + row] for row in range(count)], axis=1)[:, :features]

    def table(self, beat, rows, values):
        """Rows of a table in DRAM."""
        beats = vector_beats(values)
        found = self.body[beat * 16 : (beat + rows * beats) * 16].view("<i4").reshape(rows, -1)
        return found[:, :values].astype(np.int64)

    def tensor(self, one, kind):
        found = self.tensors[one.number, kind]
        if not one.coded or kind != "weight":
            return found
        weights = found.dequantised()
        if one.corrections:
            beats = self.body[one.correction_beat * 16 :][: one.corrections * 8]
            places, values = beats.view("<i4").reshape(-1, 2).T
            # words of the stream, in tile order
            size = self.program.size
            ranks = tile_places(weights.shape, size.lanes, size.columns).reshape(-1)
            assert (np.diff(places) > 0).all()
            flat = weights.reshape(-1)
            where = np.isin(ranks, places)
            assert not flat[where].any()
            flat[where] = values[np.searchsorted(places, ranks[where])]
        return weights

    def positions(self, one, values, shift):
        rows = self.table(one.table, one.positions, one.outputs)
        places = np.concatenate([np.arange(length) for length in self.lengths])
        return self.sum(one, values << shift, rows[places])

    def sum(self, one, first, second):
        """Sum of values with 16 fraction bits."""
        return self.narrow(first + second, Q11_16.fraction, shifted_format(Q11_16, one.result_shift))

    def second(self, one):
        return self.read(one.second, one.inputs) << one.second_shift

    def result(self, one):
        given, result = self.read(one.source, one.inputs), shifted_format(Q8_16, one.result_shift)
        match Kind(one.kind):
            case Kind.LINEAR:
                return self.linear(one, given)
            case Kind.ATTENTION:
                return self.attention(one, given)
            case Kind.NORM:
                norm = Norm(one.inputs, 0.0, bool(one.centred), shifted_format(Q11_16, one.source_shift))
                norm.__dict__["least"] = one.least
                norm.__dict__["share"] = one.factor, one.factor_fraction
                exact = norm.normalised(given, self.narrow) * self.tensor(one, "factor")
                if one.biased:
                    exact += self.tensor(one, "bias") << NORMALISED.fraction + one.fraction - Q8_16.fraction
                return self.narrow(exact, NORMALISED.fraction + one.fraction, result)
            case Kind.ACTIVATION:
                return self.activation(one, given, one.source_shift, result)
            case Kind.GATE:
                exact = (given << one.source_shift) * self.second(one)
                return self.narrow(exact, 2 * Q8_16.fraction, result)
            case Kind.ADD:
                return self.sum(one, given << one.source_shift, self.second(one))
            case Kind.POSITIONS:
                return self.positions(one, given, one.source_shift)
            case Kind.POOL:
                sentences = np.split(given, np.cumsum(self.lengths)[:-1])
                if POOLS[one.pool] == "mean":
                    return np.stack([divided(each.sum(axis=0), len(each)) for each in sentences])
                return np.stack([each[0 if POOLS[one.pool] == "first" else -1] for each in sentences])
            case Kind.UNIT:
                return unit_rows(given, self.narrow)

    def linear(self, one, given):
        # sums and biases with a common number of fraction bits
        exact = (given @ self.tensor(one, "weight").T) << one.source_shift
        if one.biased:
            exact = exact + (self.tensor(one, "bias") << one.fraction)
        found = self.narrow(exact, Q8_16.fraction + one.fraction, shifted_format(FORMATS[one.form], one.shift))
        shift = one.shift
        if one.activation:
            shift = one.passed_shift
            found = self.activation(one, found, one.shift, shifted_format(Q8_16, shift))
        if one.join in (Join.ADD, Join.GATE):
            other = self.read(one.other, one.outputs) << one.other_shift
        match Join(one.join):
            case Join.ADD:
                return self.sum(one, found << shift, other)
            case Join.GATE:
                return self.narrow(
                    (found << shift) * other, 2 * Q8_16.fraction, shifted_format(Q8_16, one.result_shift)
                )
            case Join.NONE:
                return found

    def activation(self, one, given, shift, result):
        kind, values = ACTIVATIONS[one.activation - 1], given << shift
        if kind == "relu-squared":
            return self.narrow(np.maximum(values, 0) ** 2, 2 * Q8_16.fraction, result)
        return self.narrow(FUNCTIONS[kind](values), Q8_16.fraction, result)

    def attention(self, one, queries):
        keys, values = (self.read(buffer, one.key_heads * one.width) for buffer in (one.second, one.third))
        forms = shifted_format(Q8_16, one.source_shift), shifted_format(Q6_12, one.second_shift)
        values_form, contexts = shifted_format(Q6_12, one.third_shift), shifted_format(Q8_16, one.result_shift)
        head, found = Attention(one.width, None, *forms, values_form, contexts), []
        head.__dict__["factor"] = one.factor, one.factor_fraction
        ends = np.cumsum(self.lengths)[:-1]
        for parts in zip(*(np.split(each, ends) for each in (queries, keys, values)), strict=True):
            q, k, v = (each.reshape(len(each), -1, one.width).swapaxes(0, 1) for each in parts)
            tokens = q.shape[1]
            if one.rotary:
                turns = np.split(self.table(one.table, tokens, one.width), 2, axis=1)
                q, k = self.rotated(q, turns, forms[0]), self.rotated(k, turns, forms[1])
            k, v = (each.repeat(one.heads // one.key_heads, axis=0) for each in (k, v))
            seen = causal(tokens, tokens)[None] if one.causal else None
            contexts = head.context(head.exponents(q, k, self.narrow, seen), v, self.narrow, seen)
            found.append(contexts.swapaxes(0, 1).reshape(tokens, -1))
        return np.concatenate(found)

    def rotated(self, rows, turns, form):
        cosine, sine = turns
        first, second = np.split(rows, 2, axis=-1)
        exact = np.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)
        return self.narrow(exact, form.fraction + ROTATION.fraction, form)
