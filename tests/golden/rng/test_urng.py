"""Array of generators compared with a register-level model, SciPy's sequences, and the definitions."""

import numpy as np
import pytest
from scipy.signal import max_len_seq

from fabtune.golden.errors import UserError
from fabtune.golden.rng.urng import UrngSpec, rotate

BASE = UrngSpec()
VARIATIONS = [
    BASE,
    UrngSpec(n=15),
    UrngSpec(n=3, bits=4),
    UrngSpec(n=63, bits=16),
    UrngSpec(bits=14),
    UrngSpec(leap=4),
    UrngSpec(leap=8),
    UrngSpec(n=15, bits=10, leap=4),
    UrngSpec(n=32, allow_power_of_two=True),
]


def clock(registers, spec):
    """One hardware cycle: each register takes its neighbour's value, stepped bit by bit."""
    stepped = []
    for i in range(spec.n):
        x = registers[(i + 1) % spec.n]
        for _ in range(spec.leap):
            feedback = 0
            for tap in spec.lfsr.taps:
                feedback ^= x >> (tap - 1) & 1
            x = (x << 1 | feedback) & (1 << spec.bits) - 1
        stepped.append(x)
    return stepped


@pytest.mark.parametrize("spec", VARIATIONS, ids=str)
def test_the_model_is_the_walk(spec):
    registers, rows = list(spec.seeds), []
    for _ in range(3 * spec.n + 5):
        rows.append(registers)
        registers = clock(registers, spec)
    assert np.array_equal(spec.contents(np.arange(len(rows))), rows)


def test_one_generator_is_scipys_sequence():
    # generator 0 is in register -t mod n at time t
    spec = BASE
    times = np.arange(200)
    contents = spec.contents(times)[times, -times % spec.n]
    start = [int(bit) for bit in np.binary_repr(spec.seeds[0], 8)]
    bits, _ = max_len_seq(8, state=start, length=200, taps=[8 - tap for tap in spec.lfsr.taps if tap != 8])
    assert np.array_equal(contents >> 7, bits)


@pytest.mark.parametrize("spec", VARIATIONS, ids=str)
@pytest.mark.parametrize("position", [0, 1, 254, 7904, 10**12 + 7])
def test_any_stretch_can_be_drawn_alone(spec, position):
    drawn = spec.draw(position, 300)
    assert np.array_equal(drawn, 2 * spec.words_at(position + np.arange(300)) + 1)


def test_numbers_are_odd_symmetric_and_all_there():
    numbers = BASE.by_generator[:, 0]
    assert sorted(numbers) == sorted(set(range(-255, 256, 2)) - {1})
    assert numbers.mean() == -1 / 255


def test_the_joint_period():
    assert BASE.period == 31 * 255
    first = BASE.draw(0, 1)
    assert np.array_equal(first, BASE.draw(BASE.period, 1))
    later = BASE.draw(1, BASE.period - 1)
    assert not (later == first).all(axis=1).any()


def test_successive_numbers_of_a_generator_correlate_by_their_shared_bits():
    # a shared bit has 2**-leap of its former weight; as sign bit its weight is negative
    for leap, expected in ((1, -1 / 4), (2, -1 / 8), (4, -1 / 32)):
        sequence = UrngSpec(leap=leap).by_generator[:, 0].astype(float)
        correlation = np.corrcoef(sequence, np.roll(sequence, -1))[0, 1]
        assert correlation == pytest.approx(expected, abs=0.005)


def test_a_serial_load_reaches_every_bit_once():
    for spec in VARIATIONS:
        chain = spec.chain()
        assert sorted(chain) == [(i, k) for i in range(spec.n) for k in range(spec.bits)]


def test_the_default_seeds_never_repeat_in_place():
    for spec in VARIATIONS:
        numbers = spec.words_at(np.arange(50))
        assert not (numbers[1:] == numbers[:-1]).mean() > 0.5


@pytest.mark.parametrize("n", range(1, 16))
def test_defaults_exist_for_every_size_of_the_smallest_width(n):
    assert UrngSpec(n=n, bits=4, allow_power_of_two=True).n == n


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": (0, *BASE.seeds[1:])}, "seed 0 is 0, where a generator stays forever: take 1 to 255"),
        ({"seeds": (256, *BASE.seeds[1:])}, "seed 0 is 256, outside 1 to 255"),
        ({"seeds": (*BASE.seeds[:-1], BASE.seeds[0])}, "seeds 0 and 30 are both .* two identical generators"),
        ({"seeds": BASE.seeds[:-1]}, "30 seeds for n = 31"),
        ({"seeds": tuple(BASE.lfsr.states[-np.arange(31)].tolist())}, r"freeze the array: .* every 1 cycle"),
        ({"n": 32}, "n = 32 is a power of two.* take 31, or force it"),
        ({"n": 256, "allow_power_of_two": True}, "at most that many can differ"),
        ({"n": 0}, "n = 0"),
        ({"leap": 3}, "leap of 3 is not maximal"),
        ({"bits": 3}, "bits = 3 is not in 4 to 16"),
        ({"bits": 17}, "bits = 17 is not in 4 to 16"),
        ({"taps": (8, 4)}, "not give a maximal"),
    ],
)
def test_wrong_parameters_are_refused(changes, message):
    with pytest.raises(UserError, match=message) as refusal:
        UrngSpec(**changes)
    assert "\n" not in str(refusal.value)


def test_frozen_seeds_do_freeze():
    # refused above: rotation undoes each step
    states = BASE.lfsr.states[-np.arange(31)]
    registers = states.tolist()
    moved = clock(registers, BASE)
    assert moved[:-1] == registers[:-1]


def test_rotation_needs_no_whole_period():
    rows = np.arange(12).reshape(4, 3).astype(np.int32)
    assert rotate(rows, 5, 3).tolist() == [[5, 3, 4], [6, 7, 8], [10, 11, 9]]
