"""Cost of a step on paper against formulas that are written here, and against the figures of the design."""

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.stream.machine.core_size import CoreSize
from fabtune.golden.stream.machine.cost_model import StepCost, on_paper
from tests.stream_networks import connected, decoder, encoder

DESIGN = CoreSize(rows=2 * 4096, wide_rows=3072)
"""Buffers of the design's table."""
MINILM = on_paper(encoder("minilm", 6))
TREC = tuple(int(one) for one in 7 + np.random.default_rng(0).multinomial(222 - 7 * 16, [1 / 16] * 16))
LAYER = 4 * 384**2 + 2 * 384 * 1536


def test_cycles_of_a_layer_by_hand():
    """One sentence of 32 tokens: 64 rows, tiles of 32 x 16; 12 heads of 32 features."""
    cost = StepCost(MINILM, (32,))
    cycles = [round(one.cycles) for one in cost.operations]
    square, up = 12 * 24 * 64, 12 * 96 * 64
    # 4 exponentials a cycle take longer than 2 tiles of keys and 2 of values, 32 rows each
    attention = 2 * 12 * 32 * 32 // 4
    norm = 64 * 384 // 8
    layer = [square, square, square, attention, square, norm, up, up, norm]
    # positions from DRAM, norm, 6 layers, pooling, unit length, head: 12 tiles, loaded in 16 cycles a side
    assert cycles == [round(32 * 384 * 4 / 11.2), norm, *layer * 6, 64 * 24, 2 * 2 * 384 // 8, 12 * 2 * 16]
    assert [one.bound for one in cost.operations][2:8] == ["array"] * 3 + ["functions"] + ["array"] + ["functions"]


def test_products_by_hand():
    cost = StepCost(MINILM, (5, 3))
    heads = 6 * 2 * 384 * (5**2 + 3**2)
    assert cost.products == 2 * (6 * LAYER * (5 + 3) + heads + 2 * 384 * 6)


def test_bytes_by_hand():
    """Per pass 34 beats of 16 bytes for 64 inputs x 16 outputs, and 4 bytes for each of the vectors' values."""
    cost = StepCost(MINILM, (32,))
    records = 6 * (4 * 6 * 24 + 2 * 6 * 96) + 6
    vectors = 32 * 384 + 2 * 384 + 6 * (4 * 384 + 1536 + 384 + 4 * 384)
    head = 32  # 6 biases in 2 beats
    inputs = 32 * 12 * 96
    assert cost.bytes_read == records * 34 * 16 + 4 * vectors + head + inputs
    assert cost.bytes_written == 2 * 16
    found = cost.bytes
    assert found.codes == records * 512
    assert found.scales == records * 32
    assert found.deltas == 31_620
    assert found.vectors == 4 * (512 * 384 + vectors - 32 * 384) + head
    assert found.keys_values == 64 * 2 * 384 * 3
    assert found.activations == 64 * (60 * 32 * 3 + 24 * 16 * 27 // 8) - found.keys_values


def test_a_causal_layer_leaves_out_what_is_not_seen():
    """SmolLM2, 40 tokens: each of 3 heads of keys serves 3 of queries, width 64, 2 tiles of lanes."""
    attention = next(
        one for one in StepCost(on_paper(decoder("smollm2-135m")), (40,)).operations if one.kind == "SelfAttention"
    )
    scores = 2 * sum(max(3 * (40 - begin), 16) for begin in (0, 16, 32))
    contexts = 4 * sum(max(3 * (40 - begin), 32) for begin in (0, 32))
    exponentials = 9 * 40 * 41 // 2
    assert attention.cycles == 2 * max(3 * (scores + contexts), exponentials / 4)
    assert attention.products == 2 * 2 * exponentials * 64


def test_few_rows_are_bound_by_loading_and_by_the_memory_port():
    """A tile of 272 bytes is read in 24.3 cycles of 11.2 bytes, and loaded in 16 cycles for each side."""
    network = on_paper(connected(4096, 4096, 10))
    both = StepCost(network, (1,)).operations[0]
    assert both.bound == "loading"
    assert both.cycles == 128 * 256 * 2 * 16
    alone = StepCost(network, (1,), CoreSize(rows=300)).operations[0]
    assert alone.bound == "DRAM"
    assert alone.cycles == pytest.approx(2 * (128 * 256 * 272 + 4 * 4096) / 11.2)


@pytest.mark.parametrize(
    ("lengths", "first", "millions"),
    [(TREC, 0, 9.6), ((32,) * 16, 0, 22.4), ((64,) * 16, 0, 46.0), (TREC, 2 + 3 * 12, 4.8)],
)
def test_minilm_takes_the_cycles_of_the_design(lengths, first, millions):
    assert StepCost(MINILM, lengths, DESIGN, first).cycles == pytest.approx(millions * 1e6, rel=0.03)


@pytest.mark.parametrize(("lengths", "millions"), [(TREC, 5.1), ((32,) * 16, 11.8), ((64,) * 16, 24.8)])
def test_minilm_on_twice_the_array(lengths, millions):
    size = CoreSize(32, 32, rows=DESIGN.rows, wide_rows=DESIGN.wide_rows // 2)
    assert StepCost(MINILM, lengths, size).cycles == pytest.approx(millions * 1e6, rel=0.03)


@pytest.mark.parametrize(("lengths", "millions"), [(TREC, 3.5), ((32,) * 16, 7.7), ((64,) * 16, 16.6)])
def test_on_2048_multipliers_the_design_adds_what_is_hidden_here(lengths, millions):
    """The design adds GELU, 8 values a cycle, to the array's cycles; here it runs while the next columns are summed."""
    size = CoreSize(64, 32, rows=DESIGN.rows // 2, wide_rows=DESIGN.wide_rows // 2)
    gelu = 6 * 2 * sum(lengths) * 1536 / 8
    assert StepCost(MINILM, lengths, size).cycles + gelu == pytest.approx(millions * 1e6, rel=0.03)


def test_connected_layers_need_more_rows_than_the_design_has():
    """Both sides of 20 samples are 40 x 256 rows, which 12,288 hold and 8,192 do not: two passes of 10 samples."""
    network, batch = on_paper(connected(784, 4096, 4096, 10)), (1,) * 20
    assert StepCost(network, batch).cycles == pytest.approx(1.57e6, rel=0.01)
    assert StepCost(network, batch, CoreSize.of_array("32x32", ports=2)).cycles == pytest.approx(0.79e6, rel=0.01)
    halves = StepCost(network, batch, DESIGN)
    assert [one.rows for one in halves.passes] == [20, 20]
    # each tile is loaded for both sides, 16 cycles each, and then passed by 10 rows of each
    assert halves.cycles == pytest.approx(2 * 32 * (25 * 256 + 128 * 256 + 128), rel=0.01)


def test_larger_models_against_the_design():
    opt = StepCost(on_paper(decoder("opt-125m")), (64,) * 16)
    assert opt.cycles == pytest.approx(349e6, rel=0.03)
    assert {one.sides for one in opt.passes} == {1}
    roberta = StepCost(on_paper(encoder("roberta-large", 2)), (64,) * 16)
    # the design says 1,150 M: fewer than its weights times its rows need on 512 multipliers
    least = 24 * 12 * 1024**2 * 2 * 1024 / 512
    assert least == pytest.approx(1_208e6, rel=0.001)
    assert least < roberta.cycles < 1.03 * least
    assert roberta.fits


def test_passes_are_few_and_equal():
    assert [one.lengths for one in StepCost(MINILM, (30,) * 9, DESIGN).passes] == [(30, 30)] * 4 + [(30,)]
    assert [len(one.lengths) for one in StepCost(MINILM, (12,) * 8, DESIGN).passes] == [4, 4]
    assert [one.rows for one in StepCost(MINILM, (100, 40), DESIGN).passes] == [100, 100, 40, 40]
    long = StepCost(MINILM, (200, 20), DESIGN)
    assert [one.rows for one in long.passes] == [200, 200, 20, 20]
    assert not long.fits


def test_the_cache_reads_the_rows_that_enter():
    whole, upper = StepCost(MINILM, (32,)), StepCost(MINILM, (32,), first=2 + 3 * 12)
    layer = sum(one.read for one in whole.operations[2:11])
    below = sum(one.read for one in whole.operations[:2]) + 3 * layer
    assert whole.bytes_read - upper.bytes_read == below


def test_what_has_no_cost_is_refused():
    with pytest.raises(UserError, match="at least one sentence"):
        StepCost(MINILM, ())
    with pytest.raises(UserError, match="1 to 512 tokens"):
        StepCost(MINILM, (513,))
    with pytest.raises(UserError, match="first = 99"):
        StepCost(MINILM, (3,), first=99)
