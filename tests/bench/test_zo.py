"""Zeroth order on 20 million parameters and one core, compared with MeZO's redraw, plain additions and a replay.

Run with `make bench`; times vary with the machine, so the timed suite leaves this out.
"""

import random
import time

import pytest
import torch

from fabtune.golden.registry import BLOCKS
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.settings import build
from fabtune.golden.train.zo import Gaussian, Periodic

LAYER = [(384, 384), (384,)] * 4 + [(384,)] * 2 + [(1536, 384), (1536,), (384, 1536), (384,)] + [(384,)] * 2
SHAPES = [(24_350, 384), *LAYER * 6]
"""Parameters of a small transformer."""
FRACTIONS = (1e-3, -2e-3, 1e-3, -1e-5)
"""The four passes of a step: plus, minus, back, update."""
ROUNDS = 7
SOURCES = {name: Periodic(build(BLOCKS["pezo"], [], name)) for name in PezoSpec.presets} | {"gaussian": Gaussian()}


def redraw(tensors):
    """MeZO's published passes: reseed, then a Gaussian tensor for each parameter."""
    for fraction in FRACTIONS:
        torch.manual_seed(1)
        for tensor in tensors:
            z = torch.normal(mean=0, std=1, size=tensor.size(), device=tensor.device, dtype=tensor.dtype)
            tensor.data = tensor.data + fraction * z


def plain(tensors, others):
    """In-place additions of existing tensors."""
    for fraction in FRACTIONS:
        for tensor, other in zip(tensors, others, strict=True):
            tensor.add_(other, alpha=fraction)


def walk(tensors, source):
    """The same passes with one of fabtune's sources."""
    for fraction in FRACTIONS:
        offset = 0
        for tensor in tensors:
            source.add_(tensor.view(-1), 123_456_789, offset, fraction)
            offset += tensor.numel()


def test_perturb_and_update(capsys):
    tensors, others = ([torch.randn(shape) for shape in SHAPES] for _ in range(2))
    weights = sum(tensor.numel() for tensor in tensors)
    assert 19.9e6 < weights < 20.1e6
    contestants = {"redraw": lambda: redraw(tensors), "plain": lambda: plain(tensors, others)}
    contestants |= {name: lambda source=source: walk(tensors, source) for name, source in SOURCES.items()}
    seconds = dict.fromkeys(contestants, float("inf"))
    # interleaved, best of each: other load on the machine affects all alike
    for _ in range(ROUNDS):
        for name, passes in contestants.items():
            began = time.perf_counter()
            passes()
            seconds[name] = min(seconds[name], time.perf_counter() - began)
    with capsys.disabled():
        print(f"\n{'':8} ms a pass   MeZO's redraw / this   plain addition / this")
        for name, one in seconds.items():
            print(f"{name:8} {1e3 * one / 4:9.1f} {seconds['redraw'] / one:22.1f} {seconds['plain'] / one:23.2f}")
    for name in PezoSpec.presets:
        assert seconds["redraw"] >= 5 * seconds[name]
        assert 2 * seconds["plain"] >= seconds[name]


@pytest.mark.parametrize("name", PezoSpec.presets)
def test_a_sum_of_steps_beside_its_replay(name, capsys):
    source, rng = SOURCES[name], random.Random(0)
    start = torch.randint(-(1 << 31), 1 << 31, (20_000_003,), dtype=torch.int32)
    for count in (10, 1_000, 100_000):
        steps = [(rng.randrange(10**12), rng.randrange(-(1 << 31), 1 << 31)) for _ in range(count)]
        summed = start.clone()
        began = time.perf_counter()
        total = source.accumulate(steps)
        added = time.perf_counter()
        source.table_of(total).add_(summed, 0, 0, 1)
        ended = time.perf_counter()
        line = f"{name}: {count:6} steps, summed in {added - began:.3f} s, applied in {ended - added:.3f} s"
        if count <= 1_000:
            replayed = start.clone()
            began = time.perf_counter()
            for position, coefficient in steps:
                source.add_(replayed, position, 0, coefficient)
            line += f"; replayed in {time.perf_counter() - began:.3f} s"
            assert torch.equal(summed, replayed)
        with capsys.disabled():
            print(f"\n{line}", end="")
