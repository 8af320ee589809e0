"""Speed of the golden generators: 300 million perturbation numbers and 10 million Gaussians a second on one core.

Run with `make bench`; times vary with the machine, so the timed suite leaves this out.
"""

import pytest

from fabtune.golden.registry import BLOCKS
from fabtune.golden.rng.grng import GrngSpec
from fabtune.golden.rng.perturbation import draw_perturbation
from fabtune.golden.settings import build

COUNT = 8_000_000
FLOOR = 300e6


@pytest.mark.parametrize("preset", ["pool", "otf8", "otf14"])
@pytest.mark.parametrize("lanes", [31, 32, 1024])
@pytest.mark.parametrize("position", [0, 10**15 + 7])
def test_numbers_a_second(benchmark, preset, lanes, position):
    source = build(BLOCKS["pezo"], [], preset)
    draw_perturbation(source, position, COUNT, lanes)
    benchmark.pedantic(draw_perturbation, (source, position, COUNT, lanes), rounds=5, iterations=1)
    rate = COUNT / benchmark.stats.stats.min
    benchmark.extra_info["numbers a second"] = f"{rate:.3g}"
    assert rate >= FLOOR


@pytest.mark.parametrize("form", ["tree", "select", "sum"])
def test_gaussian_numbers_a_second(benchmark, form):
    spec, count = GrngSpec(form=form), 1 << 22
    benchmark.pedantic(spec.draw, (0, count), rounds=5, iterations=1, warmup_rounds=1)
    assert count / benchmark.stats.stats.min >= 10e6
