"""Small transformers with random weights: post-norm encoders, decoders with rotary positions, vision transformers."""

import numpy as np
import torch

from fabtune.golden.fixed import Q8_16
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.settings import build
from fabtune.golden.stream.forward import IntegerTransformer, weight_formats
from fabtune.golden.stream.transformer_model import TransformerModel, padded
from fabtune.golden.transformer.blocks import SelfAttention
from fabtune.golden.transformer.builder import INPUTS, TransformerBuilder
from fabtune.golden.transformer.float_model import run_float
from fabtune.golden.zo.deltas import PerturbationTable
from fabtune.golden.zo.job import ZerothOrderJob
from fabtune.golden.zo.loss_difference import DIFFERENCE_FRACTION
from fabtune.golden.zo.step_settings import StepSettings

SOURCE = build(PezoSpec, [], "otf8")
TIMES = len(SOURCE.base)


class Drawn:
    """Random tensors scaled to keep values near 1."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def weight(self, outputs, inputs):
        return self.random.normal(0, inputs**-0.5, (outputs, inputs))

    def near(self, value, *shape):
        return self.random.normal(value, 0.1, shape)


def encoder(hidden=24, heads=3, wide=40, layers=2, classes=5, seed=1):
    """BERT-like: norms after the sums, GELU, mean pooling, unit length."""
    made, drawn = TransformerBuilder("encoder", hidden), Drawn(seed)
    x = made.positions("positions", INPUTS, drawn.near(0, 16, hidden))
    x = made.layer_norm("norm", x, drawn.near(1, hidden), drawn.near(0, hidden), 1e-12)
    for layer in range(layers):
        reads = tuple(
            made.linear(f"{layer}.{one}", x, drawn.weight(hidden, hidden), drawn.near(0, hidden)) for one in "qkv"
        )
        mixed = made.attention(f"{layer}.attention", reads, SelfAttention(heads, heads, hidden // heads))
        mixed = made.linear(f"{layer}.output", mixed, drawn.weight(hidden, hidden), drawn.near(0, hidden))
        x = made.residual(f"{layer}.sum", x, mixed)
        x = made.layer_norm(f"{layer}.norm", x, drawn.near(1, hidden), drawn.near(0, hidden), 1e-12)
        up = made.linear(f"{layer}.up", x, drawn.weight(wide, hidden), drawn.near(0, wide))
        down = made.activation(f"{layer}.gelu", up, "gelu")
        down = made.linear(f"{layer}.down", down, drawn.weight(hidden, wide), drawn.near(0, hidden))
        x = made.residual(f"{layer}.second sum", x, down)
        x = made.layer_norm(f"{layer}.second norm", x, drawn.near(1, hidden), drawn.near(0, hidden), 1e-12)
    x = made.unit_length("unit", made.pool("mean", x, "mean"))
    made.linear("head", x, drawn.weight(classes, hidden) * 5, drawn.near(0, classes))
    return made.finish()


def decoder(hidden=24, heads=4, key_heads=2, width=6, wide=32, layers=2, classes=5, kind="silu", seed=2):
    """Llama-like: RMS norms before, rotary positions, shared keys and values, a gate, the last token."""
    made, drawn, x = TransformerBuilder("decoder", hidden), Drawn(seed), INPUTS
    for layer in range(layers):
        normed = made.rms_norm(f"{layer}.norm", x, drawn.near(1, hidden), 1e-5)
        counts = heads, key_heads, key_heads
        reads = tuple(
            made.linear(f"{layer}.{one}", normed, drawn.weight(count * width, hidden))
            for one, count in zip("qkv", counts, strict=True)
        )
        mixed = made.attention(f"{layer}.attention", reads, SelfAttention(heads, key_heads, width, True, 10_000.0))
        x = made.residual(f"{layer}.sum", x, made.linear(f"{layer}.output", mixed, drawn.weight(hidden, heads * width)))
        normed = made.rms_norm(f"{layer}.second norm", x, drawn.near(1, hidden), 1e-5)
        up, gate = (made.linear(f"{layer}.{one}", normed, drawn.weight(wide, hidden)) for one in ("up", "gate"))
        gated = made.gate(f"{layer}.product", made.activation(f"{layer}.{kind}", gate, kind), up)
        x = made.residual(f"{layer}.second sum", x, made.linear(f"{layer}.down", gated, drawn.weight(hidden, wide)))
    x = made.pool("last", made.rms_norm("norm", x, drawn.near(1, hidden), 1e-5), "last")
    made.linear("head", x, drawn.weight(classes, hidden))
    return made.finish()


def vision(hidden=16, heads=2, wide=24, layers=1, classes=3, kind="gelu", seed=3):
    """Vision transformer: patches, positions, layer norms before, the first token."""
    made, drawn = TransformerBuilder("vision", 12), Drawn(seed)
    x = made.linear("patches", INPUTS, drawn.weight(hidden, 12), drawn.near(0, hidden))
    x = made.positions("positions", x, drawn.near(0, 10, hidden))
    for layer in range(layers):
        normed = made.layer_norm(f"{layer}.norm", x, drawn.near(1, hidden), drawn.near(0, hidden), 1e-6)
        reads = tuple(
            made.linear(f"{layer}.{one}", normed, drawn.weight(hidden, hidden), drawn.near(0, hidden)) for one in "qkv"
        )
        mixed = made.attention(f"{layer}.attention", reads, SelfAttention(heads, heads, hidden // heads))
        x = made.residual(f"{layer}.sum", x, made.linear(f"{layer}.output", mixed, drawn.weight(hidden, hidden)))
        normed = made.layer_norm(f"{layer}.second norm", x, drawn.near(1, hidden), None, 1e-6)
        up = made.linear(f"{layer}.up", normed, drawn.weight(wide, hidden), drawn.near(0, wide))
        down = made.linear(f"{layer}.down", made.activation(f"{layer}.{kind}", up, kind), drawn.weight(hidden, wide))
        x = made.residual(f"{layer}.second sum", x, down)
    x = made.pool("first", made.layer_norm("norm", x, drawn.near(1, hidden), drawn.near(0, hidden), 1e-6), "first")
    made.linear("head", x, drawn.weight(classes, hidden), drawn.near(0, classes))
    return made.finish()


def connected(features=9, wide=20, classes=4, seed=4):
    """Fully connected layers only."""
    made, drawn = TransformerBuilder("connected", features), Drawn(seed)
    x = made.linear("0", INPUTS, drawn.weight(wide, features), drawn.near(0, wide))
    x = made.linear("2", made.activation("1", x, "relu"), drawn.weight(wide, wide), drawn.near(0, wide))
    made.linear("4", made.activation("3", x, "relu"), drawn.weight(classes, wide), drawn.near(0, classes))
    return made.finish()


NETWORKS = {"encoder": encoder, "decoder": decoder, "vision": vision, "connected": connected}


def rows_of(network, lengths, seed=7):
    """Random input rows with Q8.16 resolution."""
    rows = np.random.default_rng(seed).normal(0, 1, (sum(lengths), network.features))
    return np.rint(rows * 2**16) / 2**16


def integer_model(made, weights=None, **settings):
    """Integer model of a network and its tensors, with deltas in the order of `SOURCE`."""
    network, parameters = made
    transformer = IntegerTransformer(network, weights or weight_formats(parameters))
    integers, _ = transformer.convert(parameters)
    return TransformerModel(transformer, integers, times=TIMES, **settings)


def sentences(seed=1, vocabulary=30, count=12):
    """Tokens, embeddings, and labels derived from the largest token."""
    rng = np.random.default_rng(seed)
    tokens = padded([rng.integers(0, vocabulary, rng.integers(2, 9)) for _ in range(count)])
    embeddings = Q8_16.from_float(rng.normal(0, 1, (vocabulary, 24)))
    return tokens, embeddings, (tokens.max(axis=1) * 5 // vocabulary).clip(0, 4)


def slopes(model, tokens, labels, position):
    """Projected gradient of the integer job's step at a position, and the float64 derivative at the same weights."""
    settings = StepSettings()
    (step,) = ZerothOrderJob(model, SOURCE, settings, position).step(tokens, labels, 0)
    found = step.difference / 2.0**DIFFERENCE_FRACTION / len(tokens) / (2 * 2.0**-settings.eps_shift)
    there, table, losses = tokens >= 0, PerturbationTable(SOURCE), []
    rows, lengths = Q8_16.to_float(model.embeddings[tokens[there]]), tuple(there.sum(axis=1))
    spread = table.spread(table.at(position), model.words)[:, np.arange(model.order.width) % SOURCE.width]
    along = model.order.split(spread)
    for step in (1e-5, -1e-5):
        moved = {
            name: model.transformer.format_of(name).to_float(one) + step * 2.0**-table.fraction * along[name]
            for name, one in model.frozen.items()
        }
        logits = torch.from_numpy(run_float(model.transformer.network, moved, rows, lengths)[-1])
        losses.append(torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels)).item())
    return found, (losses[0] - losses[1]) / 2e-5
