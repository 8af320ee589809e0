"""Single-pass server update compared with a replay of 10, 1,000 and 100,000 client steps.

Run with `make bench`; times vary with the machine, so the timed suite leaves this out.
"""

import random
import time

import pytest
import torch

from fabtune.golden.models.module import module_of
from fabtune.golden.models.network import deployed
from fabtune.golden.models.text import preset
from fabtune.golden.train.federated.configuration import FederatedConfig
from fabtune.golden.train.federated.cost_model import cut_of
from fabtune.golden.train.federated.model import SplitModel
from fabtune.golden.zo.scalars import Scalars


@pytest.mark.parametrize("name", ["fan", "lenet5-mnist"])
def test_one_pass_beside_the_replay(name, capsys):
    network, rng = deployed(preset(name)), random.Random(0)
    model = SplitModel(module_of(network), cut_of(network, -1), FederatedConfig())
    for count in (10, 1_000, 100_000):
        steps = [Scalars(rng.randrange(8), tuple(rng.randint(-127, 127) for _ in range(16))) for _ in range(count)]
        replayed = model.integers()
        began = time.perf_counter()
        moves = model.layout.moves(0, steps)
        read = time.perf_counter()
        total = model.total(moves)
        summed = time.perf_counter()
        rebuilt = model.after(total)
        applied = time.perf_counter()
        at = model.weights[0].count
        for part, where in zip(moves, (replayed[:at], replayed[at:]), strict=True):
            for position, coefficient in part:
                model.config.source.add_(where, position, 0, coefficient)
        ended = time.perf_counter()
        assert torch.equal(rebuilt, replayed)
        with capsys.disabled():
            print(
                f"\n{name}: {count:6} client-steps, read in {read - began:.4f} s, summed in {summed - read:.4f} s, "
                f"applied in {applied - summed:.4f} s; replayed in {ended - applied:.3f} s",
                end="",
            )
