"""Backward sequencer: forward and backward rows, and the outgoing updates, with a model of the array."""

import numpy as np
import pytest

from fabtune.golden.fixed import Q4_12, narrow
from fabtune.golden.lora.adapters import BATCH_GRADIENT, NOISE_BITS
from fabtune.golden.lora.mapping import AdapterMapping
from fabtune.golden.models.layers import Linear
from fabtune.golden.models.network import Network
from fabtune.golden.nn.arithmetic.forward import PRODUCT_FRACTION
from fabtune.golden.nn.array import latency
from fabtune.hw.lora.backward.backward_sequencer import FETCH, BackwardSequencer

from ....small_cores import single_axis
from ...play import play_interface

BATCH, WIDTH, RATE = 4, 44, 70000
ROW = ("enable", "within", "first", "last", "base", "address", "hidden")
"""Ports with a row."""
NETWORK = Network("own", (40,), (Linear(18), Linear(3)))
WIDE = Network("wide", (40,), (Linear(18), Linear(35)))
VARIATIONS = {
    "base": AdapterMapping.of(NETWORK, rank=2, lanes=16, columns=2),
    "two words at once": AdapterMapping.of(NETWORK, rank=2, lanes=16, columns=4),
    "last": AdapterMapping.of(NETWORK, first=1, rank=2, lanes=16, columns=2),
    "more classes than lanes": AdapterMapping.of(WIDE, rank=2, lanes=16, columns=2),
    "more than two words": AdapterMapping.of(WIDE, rank=2, lanes=16, columns=4),
    "four words at once": AdapterMapping.of(NETWORK, rank=2, lanes=16, columns=16),
}


class Case:
    """A batch with random gradients and parameters, and the expected actions of the sequencer."""

    def __init__(self, mapping, count, half=0, learn=1, wait=9):
        self.mapping, self.count, self.half, self.learn, self.wait = mapping, count, half, learn, wait
        rng = np.random.default_rng(count)
        values, entries = mapping.lanes * mapping.columns, mapping.classes * mapping.adapters
        bound = 1 << (WIDTH - 4)
        self.sums = rng.integers(-bound, bound, (mapping.adapter_rows, values))
        self.parameters = rng.integers(Q4_12.minimum, Q4_12.maximum, (mapping.adapter_rows, values))
        self.b_sums = rng.integers(-bound, bound, (entries, mapping.ranks))
        self.b = rng.integers(Q4_12.minimum, Q4_12.maximum, (entries, mapping.ranks))
        self.updates = []
        self._play()

    def _play(self):
        dut, mapping = BackwardSequencer(self.mapping, BATCH, WIDTH), self.mapping
        base_rows = self.count * (mapping.sample_rows - mapping.adapter_rows)

        def read_b(port):
            entry = min(port["address"], len(self.b) - 1)
            return {"value": self.b[entry], "gradient": self.b_sums[entry]}

        async def array(ctx):
            """Rows of A, and each row of gradients only in the cycle of its complete sums."""
            arriving, completed, before = [None] * (FETCH + latency.within_latency() - 1), 0, 0
            while True:
                *_, row, leaves = await ctx.tick().sample(dut.row, dut.enable & dut.within & dut.last)
                ctx.set(dut.parameters, self.parameters[min(before, mapping.adapter_rows - 1)].tolist())
                before = row
                arriving.append(completed if leaves else None)
                completed += leaves
                number = arriving.pop(0)
                ctx.set(dut.complete, number is not None)
                ctx.set(dut.completing, arriving[0] is not None)
                ctx.set(dut.sums, [7] * len(self.sums[0]) if number is None else self.sums[number].tolist())

        async def body(bench):
            given = {name: getattr(self, name) for name in ("count", "half", "learn")}
            await bench.pulse("batch.start", rate=RATE, **given)
            while len(bench.seen["base"]) < base_rows:
                await bench.tick()
            await bench.tick(self.wait - 1)
            bench.set(finished=self.count)
            while not bench.seen["batch.done"]:
                await bench.tick()

        watch = {"enable": ROW, "base": ROW, "updates.write": ("write", "address", "beats"), "batch.done": None}
        seen = play_interface(dut, watch=watch, answer={"b": read_b}, body=body, background=[array])
        self.rows = [dict(zip(ROW, row, strict=True)) for _, row in sorted(dict(seen["enable"] + seen["base"]).items())]
        self.done = seen.cycles("batch.done")
        for write, address, values in seen.words("updates.write"):
            for part in range(mapping.words_per_cycle):
                self.updates += [(address + part, values[8 * part : 8 * part + 8])] if write >> part & 1 else []

    def image(self):
        """The adapters' image after the update, beat by beat."""

        def updated(old, sums):
            gradient = narrow(sums, PRODUCT_FRACTION, BATCH_GRADIENT)
            return narrow((old << NOISE_BITS) - gradient * RATE, Q4_12.fraction + NOISE_BITS, Q4_12)

        a = updated(self.parameters, self.sums).reshape(-1, 8)
        b = updated(self.b, self.b_sums)
        # columns of B without a rank get zero updates
        return a.tolist() + np.pad(b, ((0, 0), (0, 8 - b.shape[1]))).tolist()


@pytest.mark.parametrize(("name", "count"), single_axis(VARIATIONS, [BATCH, 1]))
def test_rows_forward_then_backward(name, count):
    mapping = VARIATIONS[name]
    case = Case(mapping, count, half=1)
    origin = BATCH * mapping.sample_rows
    ends = np.cumsum(mapping.rows_per_adapter)
    forward = [row for row in case.rows if not row["within"]]
    assert [row["address"] for row in forward] == [origin + at for at in range(count * mapping.sample_rows)]
    for at, row in enumerate(forward):
        own = at % mapping.sample_rows
        assert row["base"] == (own >= mapping.adapter_rows)
        if not row["base"]:
            assert row["first"] == (own in (0, *ends))
            assert row["last"] == (own + 1 in ends)
    backward = [row for row in case.rows if row["within"]]
    expected = [
        (
            origin + sample * mapping.sample_rows + row,
            sample * mapping.adapters + int(np.searchsorted(ends, row, "right")),
        )
        for row in range(mapping.adapter_rows)
        for sample in range(count)
    ]
    assert [(row["address"], row["hidden"]) for row in backward] == expected
    assert [row["first"] for row in backward] == [at % count == 0 for at in range(len(backward))]
    assert [row["last"] for row in backward] == [at % count == count - 1 for at in range(len(backward))]


@pytest.mark.parametrize(("name", "count"), single_axis(VARIATIONS, [BATCH, 1, 2]))
def test_every_beat_is_updated_once(name, count):
    case = Case(VARIATIONS[name], count)
    addresses = [address for address, _ in case.updates]
    assert addresses == list(range(case.mapping.adapter_beats))
    assert [beat for _, beat in case.updates] == case.image()


def test_without_learning_a_batch_ends_with_its_logits():
    case = Case(VARIATIONS["base"], BATCH, learn=0)
    assert not case.updates
    assert not any(row["within"] for row in case.rows)
    assert case.done


def test_backward_waits_for_the_gradients():
    soon, late = (Case(VARIATIONS["base"], 2, wait=wait) for wait in (9, 59))
    assert late.done[0] == soon.done[0] + 50
    assert late.updates == soon.updates
