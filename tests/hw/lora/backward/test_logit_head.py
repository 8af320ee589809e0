"""Logit head: logits, gradients and clipped values of batches, with input gaps and output stalls."""

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
from fabtune.hw.lora.backward.paired_head import PairedLogitHead

from ...play import play_interface

BATCH = 4


def mapping(*outputs, **options):
    network = Network("own", (20,), tuple(Linear(count) for count in outputs))
    return AdapterMapping.of(network, **{"rank": 4, "lanes": 16, "columns": 4, **options})


MAPPINGS = {
    "base": mapping(9, 3),
    "one adapter": mapping(9, 5, first=1),
    "one rank": mapping(9, 3, rank=1, columns=2),
    "many adapters": mapping(9, 8, 7, 6, 2),
    # two samples' logits fill the FIFO of 64
    "many classes": mapping(9, 32, lanes=32),
    # base logits in a row and a partial row, in whole rows, in a row of two words
    "more classes than lanes": mapping(9, 37),
    "rows of base logits": mapping(9, 64, first=1),
    "two words at once": mapping(9, 30, rank=2),
    "rows of two words": mapping(9, 70, rank=2),
    # two classes at a time
    "four words at once": mapping(9, 8, 7, 6, 10, columns=16),
    "an odd number of classes": mapping(9, 8, 11, columns=16, rank=3),
    "as many classes as lanes": mapping(9, 16, columns=16, first=1),
    "targets of four words": mapping(9, 20, loss="mse", columns=16, lanes=32),
    "targets": mapping(9, 20, loss="mse"),
    "targets of two words": mapping(9, 20, rank=2, loss="mse"),
}


class Batch:
    """A batch's random values, and the model's results."""

    def __init__(self, one, count, seed=0, half=0, show=1, scale=1.0):
        rng = np.random.default_rng(seed)
        self.count, self.half, self.show = count, half, show

        def values(target, share, *shape):
            return rng.integers(int(share * target.minimum), int(share * target.maximum), shape, endpoint=True)

        self.b = values(Q4_12, min(1.0, 0.3 * scale), one.classes, one.adapters, one.ranks)
        self.h = values(Q8_16, min(1.0, 0.02 * scale), count, one.adapters, one.ranks)
        self.base = values(Q8_16, min(1.0, 0.02 * scale), count, one.classes)
        self.labels = rng.integers(0, one.labels, count)
        # reads of the batch memory: each sample's rows, the values' rows first
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

    def results(self):
        """Expected results; gradients as rows with a value per rank."""
        last = [0] * (self.logits.shape[1] - 1) + [1]
        logits = [{"logit": x, "last": end} for row in self.logits.tolist() for x, end in zip(row, last, strict=True)]
        rows = {name: getattr(self, name).reshape(-1, self.h.shape[2]).tolist() for name in ("dh", "b", "db")}
        return {"logits": logits if self.show else [], "clipped": self.clipped, **rows}


def head_of(one, most=BATCH):
    """A head, with two classes at a time if the mapping says so."""
    kind = PairedLogitHead if one.classes_per_cycle == 2 else LogitHead
    return kind(one, most, accumulator_width(Q8_16, Q4_12, most))


def results(one, batches, stall=0.0, most=BATCH):
    """Results of batches of up to `most` samples, played in sequence."""
    found, rng = [], np.random.default_rng(7)
    # unused after the last sample
    targets = np.full((2 * most * one.sample_rows, one.logits_per_row), 5)

    def read_targets(port):
        row = targets[port["address"] % len(targets)] if port["free"] else targets[0] * 0 + 5
        return {"free": rng.random() >= stall, "values": row}

    async def body(bench):
        for batch in batches:
            for entry, value in enumerate(batch.b.reshape(-1, one.ranks)):
                await bench.pulse("b_write.enable", address=entry, value=value)
            origin = batch.half * most
            for at, label in enumerate(batch.labels):
                await bench.pulse("labels.enable", address=origin + at, label=label)
            rows = batch.targets.reshape(-1, one.logits_per_row)
            targets[origin * one.sample_rows :][: len(rows)] = rows
            bench.set(half=batch.half, show=batch.show)
            await bench.pulse("start")
            padded = np.pad(batch.base, ((0, 0), (0, -one.classes % one.logits_per_row)))
            for bases, hidden in zip(padded, batch.h, strict=True):
                for base in bases.reshape(-1, one.logits_per_row):
                    await bench.pulse("forward.base_valid", base=base)
                await bench.tick()
                for h in hidden:
                    await bench.gap()
                    await bench.pulse("forward.hidden_valid", hidden=h)
            await bench.until("finished", batch.count)
            entries = range(one.classes * one.adapters)
            found.append(
                {
                    "logits": bench.seen.fresh("logits"),
                    "clipped": sum(bench.seen.fresh("clipped")),
                    "dh": await bench.read("gradients.address", range(batch.count * one.adapters), "value"),
                    "b": await bench.read("b_read.address", entries, "value"),
                    "db": await bench.read("b_read.address", entries, "gradient"),
                }
            )

    dut = head_of(one, most)
    answer = {"targets": read_targets} if one.loss == "mse" else {}
    play_interface(dut, take={"logits": None}, watch={"clipped": None}, answer=answer, body=body, stall=stall)
    return found


@pytest.mark.parametrize(
    ("name", "stall"),
    [
        ("base", 0.0),
        *((name, 0.5) for name in MAPPINGS),
        *(pytest.param(name, 0.0, marks=pytest.mark.slow) for name in MAPPINGS if name != "base"),
    ],
)
def test_a_batch(name, stall):
    one = MAPPINGS[name]
    batch = Batch(one, BATCH)
    assert results(one, [batch], stall) == [batch.results()]


def test_logits_wait_where_few_are_taken():
    """A batch larger than the logit FIFOs of both halves."""
    one, most = MAPPINGS["an odd number of classes"], 8
    batch = Batch(one, most)
    assert results(one, [batch], 0.8, most) == [batch.results()]


@pytest.mark.parametrize("name", ["base", "rows of base logits", "targets"])
def test_nothing_of_a_batch_stays_for_the_next(name):
    one = MAPPINGS[name]
    batches = [Batch(one, 3), Batch(one, 1, seed=1, half=1, show=0), Batch(one, BATCH, seed=2)]
    assert results(one, batches) == [batch.results() for batch in batches]


@pytest.mark.parametrize(("name", "period"), [("one adapter", 22), ("many adapters", 19), ("four words at once", 26)])
def test_cycles_of_a_sample(name, period):
    """Cycles of the softmax; all entries of B until their logits wait, or half of them plus one with four words."""
    one, cycles = MAPPINGS[name], []

    async def body(bench):
        await bench.pulse("start")
        for _ in range(BATCH):
            await bench.pulse("forward.base_valid")
            await bench.tick()
            bench.set({"forward.hidden_valid": 1})
            await bench.tick(one.adapters)
            bench.set({"forward.hidden_valid": 0})
        for count in range(1, BATCH + 1):
            await bench.until("finished", count)
            cycles.append(bench.cycle)

    play_interface(head_of(one), take={"logits": None}, body=body)
    assert np.diff(cycles).tolist() == [period] * (BATCH - 1)


@pytest.mark.parametrize("name", ["many adapters", "an odd number of classes"])
def test_clipped_logits_and_gradients_are_counted(name):
    one = MAPPINGS[name]
    batch = Batch(one, BATCH, scale=50.0)
    assert batch.clipped > 4
    assert results(one, [batch]) == [batch.results()]
