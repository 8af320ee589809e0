"""Cost of a step compared with formulas written here, and with the design's figures."""

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
    """A sentence of 32 tokens: 64 rows, tiles of 32 x 16; 12 heads of 32 features; 4 sums a cycle leave the array."""
    cost = StepCost(MINILM, (32,))
    cycles = [round(one.cycles) for one in cost.operations]
    # the last group of 16 outputs drains after the array, three cycles a row; pipelines
    end = 3 * 64 + 60 + 32
    square, up = 12 * 24 * 64 + end, 12 * 96 * 64 + end
    # biases of 384 outputs after a linear layer; a cycle per row and group of joined operands
    behind, joined = 384, 24 * 64
    # scores of 2 key groups, contexts of 2 feature groups: 32 queries drain in 4 cycles each
    attention = 2 * 12 * (4 * 4 * 32 + 5) + 60
    norm = 64 * 384 / 8 + 1.2 * 2 * 384 + 60
    layer = [square, *[square + behind] * 2, attention, square + joined, norm, up, up + joined + behind, norm]
    positions, mean, unit = 64 * 384 / 4 + 1.2 * 32 * 384, 24 * (64 + 2 * 36), 3 * 2 * (96 + 32) + 60
    # the head has 12 tiles, loaded in 16 cycles a side; two rows drain in 8 cycles
    assert cycles == [round(one) for one in (positions, norm, *layer * 6, mean, unit, 12 * 32 + 8 - 2 + 60 + 32)]
    assert [one.bound for one in cost.operations][2:8] == ["array"] * 3 + ["functions"] + ["array"] + ["functions"]
    # a perturbation and an update of 255 x 31 numbers, and the samples
    assert cost.cycles == pytest.approx(sum(cycles) + 2 * 255 * 31 + 32 * 12 * 96 / 11.2, rel=1e-5)


@pytest.mark.parametrize(
    ("lengths", "measured"), [((32,) * 2, 3_008_277), ((12,) * 8, 4_629_347), ((32,) * 16, 24_015_277)], ids=str
)
def test_cycles_are_those_of_the_rtl(lengths, measured):
    """Measured on the compiled core by `step_cycles`, the last by a complete step; see the core's page."""
    assert StepCost(MINILM, lengths).cycles == pytest.approx(measured, rel=0.005)


def test_products_by_hand():
    cost = StepCost(MINILM, (5, 3))
    heads = 6 * 2 * 384 * (5**2 + 3**2)
    assert cost.products == 2 * (6 * LAYER * (5 + 3) + heads + 2 * 384 * 6)


def test_bytes_by_hand():
    """Per pass 34 beats of 16 bytes for 64 inputs x 16 outputs, and 4 bytes per vector value."""
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
    """SmolLM2, 40 tokens: 9 query heads of width 64, 2 tiles of lanes; 4 cycles drain a row of 16 sums."""
    attention = next(
        one for one in StepCost(on_paper(decoder("smollm2-135m")), (40,)).operations if one.kind == "SelfAttention"
    )
    scores = 4 * sum(40 - begin for begin in (0, 16, 32))
    # contexts of 4 feature groups: 40 rows for the first 32 tokens, 8 for the other 8, plus draining
    contexts = 4 * max(40 + 32, 4 * 40)
    # queries and keys are rotated first: 4 values a cycle, a row of 64 cosines and sines a token
    turned = 80 * (9 + 3) * 64 / 4 + 40 * (1.2 * 64 + 2 * 64 / 16 + 14)
    assert attention.cycles == 2 * 9 * (scores + contexts + 5) + turned + 60
    assert attention.products == 2 * 2 * 9 * 40 * 41 // 2 * 64


def test_few_rows_are_bound_by_loading_and_by_the_memory_port():
    """A tile of 272 bytes takes 24.3 cycles to read at 11.2 bytes a cycle, and 16 cycles to load for each side."""
    network = on_paper(connected(4096, 4096, 10))
    both = StepCost(network, (1,)).operations[0]
    assert both.bound == "loading"
    # two rows drain in 8 cycles; pipelines
    assert both.cycles == 128 * 256 * 2 * 16 + 8 - 2 + 60 + 32
    alone = StepCost(network, (1,), CoreSize(rows=300)).operations[0]
    # a side takes 24.3 cycles of the port, and the offsets of its tile 31
    assert alone.bound == "offsets"
    assert alone.cycles == pytest.approx(2 * 128 * 256 * 31, rel=1e-3)
    wide = StepCost(network, (1,), CoreSize.of_array("32x32")).operations[0]
    assert wide.bound == "DRAM"
    assert wide.cycles == pytest.approx(128 * 128 * 544 / 11.2, rel=3e-3)


@pytest.mark.parametrize(
    ("lengths", "first", "millions"),
    [(TREC, 0, 9.6), ((32,) * 16, 0, 22.4), ((64,) * 16, 0, 46.0), (TREC, 2 + 3 * 12, 4.8)],
)
def test_minilm_takes_a_twelfth_more_than_the_design(lengths, first, millions):
    """The design omits attention outputs, reads of joined operands, and pipelines."""
    assert 1.07 < StepCost(MINILM, lengths, CoreSize(), first).cycles / (millions * 1e6) < 1.085


@pytest.mark.parametrize(("lengths", "millions"), [(TREC, 5.1), ((32,) * 16, 11.8), ((64,) * 16, 24.8)])
def test_minilm_on_twice_the_array(lengths, millions):
    """32 columns: a row drains in 8 cycles."""
    assert 1.12 < StepCost(MINILM, lengths, CoreSize.of_array("32x32")).cycles / (millions * 1e6) < 1.14


def test_connected_layers_need_more_rows_than_the_design_has():
    """Both sides of 20 samples are 40 x 256 rows: they fit 12,288, but 8,192 take two passes of 10 samples."""
    network, batch = on_paper(connected(784, 4096, 4096, 10)), (1,) * 20
    assert StepCost(network, batch).cycles == pytest.approx(1.57e6, rel=0.02)
    # measured on the compiled core; the design's 0.79 million load samples through both ports
    assert StepCost(network, batch, CoreSize.of_array("32x32", ports=2)).cycles == pytest.approx(826_406, rel=0.02)
    halves = StepCost(network, batch, DESIGN)
    assert [one.rows for one in halves.passes] == [32, 8]
    # each tile is loaded for both sides, 16 cycles each, for the same rows
    assert halves.cycles == pytest.approx(2 * 32 * (25 * 256 + 128 * 256 + 128), rel=0.02)


def test_larger_models_against_the_design():
    opt = StepCost(on_paper(decoder("opt-125m")), (64,) * 16)
    assert opt.cycles == pytest.approx(349e6, rel=0.04)
    assert {one.sides for one in opt.passes} == {1}
    roberta = StepCost(on_paper(encoder("roberta-large", 2)), (64,) * 16)
    # the design states 1,150 M: less than weights times rows on 512 multipliers
    least = 24 * 12 * 1024**2 * 2 * 1024 / 512
    assert least == pytest.approx(1_208e6, rel=0.001)
    assert least < roberta.cycles < 1.05 * least
    assert roberta.fits


def test_a_pass_takes_what_has_room():
    assert [one.lengths for one in StepCost(MINILM, (30,) * 9, DESIGN).passes] == [(30, 30)] * 4 + [(30,)]
    assert [len(one.lengths) for one in StepCost(MINILM, (12,) * 8, DESIGN).passes] == [5, 3]
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
