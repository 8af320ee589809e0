"""Device memory of a zeroth-order job: registers, sizes, every image bit, and reading back."""

import numpy as np
import pytest

from fabtune.golden.cores.zotrain.registers import CORE, REGISTERS
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.nn.arithmetic.forward import StageIntegers
from fabtune.golden.nn.array.images import frozen_image, samples_image
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.settings import build
from fabtune.golden.zo.job import ZerothOrderStep
from fabtune.golden.zo.memory_layout import StepOrder

SPEC = ZotrainSpec(network="digits")
MAPPING, NETWORK, LAYOUT = SPEC.mapping, SPEC.described, SPEC.layout
RNG = np.random.default_rng(3)
FROZEN = [
    StageIntegers(RNG.integers(-99, 99, one.weight_shape), RNG.integers(-99, 99, one.biases)) for one in NETWORK.stages
]
STEPS = [
    StepOrder(np.array([7, 300_000, 0]), np.array([9, 1, 0]), 65_535),
    StepOrder(np.array([(1 << 24) - 1]), np.array([255]), 0),
]


def words(region):
    return region.image.view("<u4").tolist()


def test_every_address_has_a_region_of_its_register():
    rows = np.zeros((MAPPING.words, 31), np.int64)
    regions = [
        *(LAYOUT.parameters(FROZEN), LAYOUT.deltas(rows), LAYOUT.samples(np.zeros((2, 1, 8, 8), int))),
        *(LAYOUT.order(STEPS, 3), LAYOUT.state(0), LAYOUT.records(2, 3), LAYOUT.logits(2)),
    ]
    assert [region.register for region in regions] == [setting.name for setting in CORE.addresses]
    assert all(REGISTERS[region.register].access == "RW" for region in regions)
    assert all(region.size % 16 == 0 for region in regions)
    assert [bool(region.image.size) for region in regions] == [True] * 5 + [False] * 2


def test_parameters_and_samples_are_those_of_the_forward_engine():
    assert np.array_equal(LAYOUT.parameters(FROZEN).image, frozen_image(MAPPING.forward, FROZEN))
    assert LAYOUT.parameters(FROZEN).size == 16 * MAPPING.forward.frozen_beats
    inputs = RNG.integers(0, 256, (3, 1, 8, 8))
    assert np.array_equal(LAYOUT.samples(inputs).image, samples_image(MAPPING.forward, inputs).reshape(-1))


def test_a_step_is_its_rate_and_size_then_its_entries():
    first, second = np.array(words(LAYOUT.order(STEPS, 3))).reshape(2, 4).tolist()
    assert first == [0x0002_FFFF, 0x0900_0007, 0x0104_93E0, 0]
    assert second == [0x0000_0000, 0xFFFF_FFFF, 0, 0]


@pytest.mark.parametrize(("batch", "beats"), [(1, 1), (3, 1), (4, 2), (7, 2), (8, 3), (256, 65)])
def test_a_step_begins_on_a_beat(batch, beats):
    assert LAYOUT.step_beats(batch) == beats
    steps = [StepOrder(np.arange(batch), np.zeros(batch, int), 1)] * 2
    order = LAYOUT.order(steps, batch)
    assert order.size == order.image.size == 2 * 16 * beats
    assert words(order)[4 * beats] == (batch - 1) << 16 | 1


@pytest.mark.parametrize("preset", ["otf8", "otf14", "pool"])
def test_the_state_is_sent_lowest_bit_first(preset):
    generator = build(PezoSpec, ["pool.p=33", "pool.size=8415"] if preset == "pool" else [], preset)
    layout = ZotrainSpec(network="digits", generator=generator).layout
    found = layout.state(100)
    bits = generator.serial(100)
    assert found.size == found.image.size == 16 * -(-len(bits) // 128)
    assert sum(int(bit) << at for at, bit in enumerate(bits)) == int.from_bytes(found.image.tobytes(), "little")
    assert not np.array_equal(found.image, layout.state(101).image)


def test_deltas_of_a_word_are_a_row_of_whole_beats():
    rows = RNG.integers(-(1 << 31), 1 << 31, (MAPPING.words, 31))
    region = LAYOUT.deltas(rows)
    assert LAYOUT.row_beats == 8
    assert region.size == region.image.size == LAYOUT.deltas().size == MAPPING.words * 8 * 16
    image = region.image.view("<i4").reshape(-1, 32)
    assert np.array_equal(image[:, :31], rows)
    assert not image[:, 31].any()
    assert np.array_equal(LAYOUT.deltas_of(region.image), rows)


def test_records_are_words_of_samples_then_position_coefficient_and_difference():
    steps = [
        ZerothOrderStep(7904, -3, -(1 << 40) - 5, np.array([0x0001_1000, 0x8FFF_0000, 0x0002_0011])),
        ZerothOrderStep(0, (1 << 26) - 1, (1 << 45) + 9, np.array([0x1000_1000])),
    ]
    image = LAYOUT.records_image(steps, 3)
    assert image.size == LAYOUT.records(2, 3).size == 2 * 16 * LAYOUT.record_beats(3)
    first, second = image.view("<u4").reshape(2, 8).tolist()
    assert first == [0x0001_1000, 0x8FFF_0000, 0x0002_0011, 0, 7904, 0xFFFF_FFFD, 0xFFFF_FFFB, 0xFFFF_FEFF]
    assert second == [0x1000_1000, 0, 0, 0, 0, 0x03FF_FFFF, 9, 0x2000]
    for found, step in zip(LAYOUT.records_of(image, [3, 1], 3), steps, strict=True):
        assert (found.position, found.coefficient, found.difference) == (
            step.position,
            step.coefficient,
            step.difference,
        )
        assert np.array_equal(found.words, step.words)
    assert found.probabilities.tolist() == [[4096], [4096]]


@pytest.mark.parametrize(("batch", "beats"), [(1, 2), (4, 2), (5, 3), (20, 6), (256, 65)])
def test_sizes_of_records(batch, beats):
    assert LAYOUT.record_beats(batch) == beats
    assert LAYOUT.records(10, batch).size == 10 * 16 * beats
    assert LAYOUT.records(0, batch).size == 16 * beats


def test_logits_of_a_sample_begin_on_a_beat():
    assert LAYOUT.logit_beats == 3
    assert (LAYOUT.logits(5).size, LAYOUT.logits(0).size) == (5 * 48, 48)
    logits = RNG.integers(-(1 << 23), 1 << 23, (5, 10))
    image = np.pad(logits, ((0, 0), (0, 2)), constant_values=-1).astype("<i4").view(np.uint8).reshape(-1)
    assert np.array_equal(LAYOUT.logits_of(image), logits)
