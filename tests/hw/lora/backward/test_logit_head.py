"""Logit head: logits, gradients and clipped values of batches, with gaps before it and stalls behind it."""

import numpy as np
import pytest

from fabtune.golden.fixed import Q4_12, Q8_16, Narrower, accumulator_width
from fabtune.golden.lora.mapping import AdapterMapping
from fabtune.golden.lora.mseloss import mse_gradient
from fabtune.golden.models.layers import Linear
from fabtune.golden.models.network import Network
from fabtune.golden.nn.arithmetic.forward import PRODUCT_FRACTION
from fabtune.golden.nn.softmax import SoftmaxTables
from fabtune.hw.lora.backward.logit_head import LogitHead

BATCH = 4


def mapping(*outputs, **options):
    network = Network("own", (20,), tuple(Linear(count) for count in outputs))
    return AdapterMapping.of(network, **{"rank": 4, "lanes": 16, "columns": 4, **options})


MAPPINGS = {
    "base": mapping(9, 3),
    "one adapter": mapping(9, 5, first=1),
    "one rank": mapping(9, 3, rank=1, columns=2),
    "many adapters": mapping(9, 8, 7, 6, 2),
    # with two samples' logits the FIFO of 64 is full
    "many classes": mapping(9, 32, lanes=32),
    # base logits in a row and a part of one, in whole rows, in a row of two words
    "more classes than lanes": mapping(9, 37),
    "rows of base logits": mapping(9, 64, first=1),
    "two words at once": mapping(9, 30, rank=2),
    "rows of two words": mapping(9, 70, rank=2),
    "targets": mapping(9, 20, loss="mse"),
    "targets of two words": mapping(9, 20, rank=2, loss="mse"),
}


class Batch:
    """A batch's random values, and what the model makes of them."""

    def __init__(self, one, count, seed=0, half=0, show=1, scale=1.0):
        rng = np.random.default_rng(seed)
        self.count, self.half, self.show = count, half, show

        def values(target, share, *shape):
            return rng.integers(int(share * target.minimum), int(share * target.maximum), shape, endpoint=True)

        self.b = values(Q4_12, min(1.0, 0.3 * scale), one.classes, one.adapters, one.ranks)
        self.h = values(Q8_16, min(1.0, 0.02 * scale), count, one.adapters, one.ranks)
        self.base = values(Q8_16, min(1.0, 0.02 * scale), count, one.classes)
        self.labels = rng.integers(0, one.labels, count)
        # what the head reads of the batch memory: each sample's rows, first those of its values
        self.targets = values(Q8_16, min(1.0, 0.02 * scale), count, one.sample_rows * one.logits_per_row)
        narrow = Narrower()
        sums = (self.base << Q4_12.fraction) + np.einsum("car,nar->nc", self.b, self.h)
        self.logits = narrow(sums, PRODUCT_FRACTION, Q8_16)
        if one.loss == "mse":
            gradient = mse_gradient(self.logits, self.targets[:, : one.classes], narrow)
        else:
            gradient = SoftmaxTables().gradient(self.logits, self.labels)
        self.dh = narrow(np.einsum("nc,car->nar", gradient, self.b), 2 * Q4_12.fraction, Q4_12)
        self.db = np.einsum("nc,nar->car", gradient, self.h)
        self.clipped = narrow.saturations


def play_batches(play, one, batches, stall=0.0):
    """Play batches one after the other; of each its logits, dh, db and number of clipped values."""
    dut, found, rng = LogitHead(one, BATCH, accumulator_width(Q8_16, Q4_12, BATCH)), [], np.random.default_rng(9)
    seen = {"logits": [], "clipped": 0, "batch": batches[0]}

    async def gaps(ctx):
        while rng.random() < stall:
            await ctx.tick()

    async def sink(ctx):
        own = np.random.default_rng(8)
        while True:
            ready = own.random() >= stall
            ctx.set(dut.logits.ready, ready)
            *_, valid, payload, clipped = await ctx.tick().sample(dut.logits.valid, dut.logits.payload, dut.clipped)
            seen["clipped"] += clipped
            if valid and ready:
                seen["logits"].append((payload.logit, payload.last))

    async def targets(ctx):
        own = np.random.default_rng(7)
        while True:
            free = own.random() >= stall
            ctx.set(dut.targets.free, free)
            *_, address = await ctx.tick().sample(dut.targets.address)
            batch = seen["batch"]
            rows = batch.targets.reshape(-1, one.logits_per_row)
            row = address - batch.half * BATCH * one.sample_rows
            # behind the last sample it may read anything
            ctx.set(dut.targets.values, rows[row % len(rows)].tolist() if free else [5] * one.logits_per_row)

    async def write(ctx, port, address, **values):
        for name, value in (values | {"address": address, "enable": 1}).items():
            ctx.set(getattr(port, name), value)
        await ctx.tick()
        ctx.set(port.enable, 0)

    async def pulse(ctx, flag, **values):
        for name, value in values.items():
            ctx.set(getattr(dut.forward, name), value)
        ctx.set(flag, 1)
        await ctx.tick()
        ctx.set(flag, 0)

    async def body(ctx):
        for batch in batches:
            for entry, value in enumerate(batch.b.reshape(-1, one.ranks).tolist()):
                await write(ctx, dut.b_write, entry, value=value)
            for at, label in enumerate(batch.labels):
                await write(ctx, dut.labels, at + batch.half * BATCH, label=int(label))
            ctx.set(dut.half, batch.half)
            ctx.set(dut.show, batch.show)
            seen["logits"], seen["clipped"], seen["batch"] = [], 0, batch
            await pulse(ctx, dut.start)
            for sample in range(batch.count):
                for row in np.split(batch.base[sample], range(one.logits_per_row, one.classes, one.logits_per_row)):
                    padded = np.pad(row, (0, one.logits_per_row - len(row)))
                    await pulse(ctx, dut.forward.base_valid, base=padded.tolist())
                await ctx.tick()
                for h in batch.h[sample].tolist():
                    await gaps(ctx)
                    await pulse(ctx, dut.forward.hidden_valid, hidden=h)
            await ctx.tick().until(dut.finished == batch.count)
            dh, b, db = [], [], []
            for entry in range(batch.count * one.adapters):
                ctx.set(dut.gradients.address, entry)
                await ctx.tick()
                dh.append(list(ctx.get(dut.gradients.value)))
            for entry in range(one.classes * one.adapters):
                ctx.set(dut.b_read.address, entry)
                await ctx.tick()
                b.append(list(ctx.get(dut.b_read.value)))
                db.append(list(ctx.get(dut.b_read.gradient)))
            found.append({"logits": seen["logits"], "clipped": seen["clipped"], "dh": dh, "b": b, "db": db})

    play(dut, body, sink, *([targets] if one.loss == "mse" else []))
    return found


def check(one, batch, found):
    last = [0] * (one.classes - 1) + [1]
    shown = batch.logits.reshape(-1).tolist() if batch.show else []
    assert [logit for logit, _ in found["logits"]] == shown
    assert [flag for _, flag in found["logits"]] == last * (batch.count if batch.show else 0)
    for name in ("dh", "b", "db"):
        assert found[name] == getattr(batch, name).reshape(-1, one.ranks).tolist(), name
    assert found["clipped"] == batch.clipped


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("name", MAPPINGS)
def test_a_batch(name, stall, play):
    one = MAPPINGS[name]
    batch = Batch(one, BATCH)
    check(one, batch, play_batches(play, one, [batch], stall)[0])


@pytest.mark.parametrize("name", ["base", "rows of base logits", "targets"])
def test_nothing_of_a_batch_stays_for_the_next(name, play):
    one = MAPPINGS[name]
    batches = [Batch(one, 3), Batch(one, 1, seed=1, half=1, show=0), Batch(one, BATCH, seed=2)]
    for batch, found in zip(batches, play_batches(play, one, batches), strict=True):
        check(one, batch, found)


def test_clipped_logits_and_gradients_are_counted(play):
    one = MAPPINGS["many adapters"]
    batch = Batch(one, BATCH, scale=50.0)
    assert batch.clipped > 4
    check(one, batch, play_batches(play, one, [batch])[0])
