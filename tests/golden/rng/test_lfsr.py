"""LFSRs compared with SciPy's maximal-length sequences."""

import numpy as np
import pytest
from scipy.signal import max_len_seq

from fabtune.golden.errors import UserError
from fabtune.golden.rng.lfsr import TAPS, Lfsr


@pytest.mark.parametrize("bits", sorted(TAPS))
def test_the_bit_stream_is_scipys(bits):
    lfsr = Lfsr(bits)
    # SciPy counts taps from the other end and omits the last
    taps = [bits - tap for tap in lfsr.taps if tap != bits]
    length = min(lfsr.period, 5000)
    start = [int(bit) for bit in np.binary_repr(1, bits)]
    theirs, _ = max_len_seq(bits, state=start, length=length, taps=taps)
    ours = (lfsr.states[:length] >> (bits - 1)) & 1
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("bits", sorted(TAPS))
def test_every_state_comes_once(bits):
    lfsr = Lfsr(bits)
    assert np.array_equal(np.sort(lfsr.states), np.arange(1, lfsr.period + 1))
    assert np.array_equal(lfsr.states[lfsr.phases[1:]], np.arange(1, lfsr.period + 1))


@pytest.mark.parametrize("steps", [1, 4, 8])
def test_the_transition_is_so_many_steps(steps):
    lfsr = Lfsr(8)
    rows = lfsr.transition(steps)
    moved = [sum((int(x) & row).bit_count() % 2 << k for k, row in enumerate(rows)) for x in lfsr.states]
    assert np.array_equal(moved, np.roll(lfsr.states, -steps))


@pytest.mark.parametrize(
    ("bits", "taps", "message"),
    [
        (8, (8, 4), "not give a maximal"),
        (8, (9, 1), "are not in 1 to 8"),
        (21, (), "2 to 20 bits"),
        (1, (), "2 to 20 bits"),
    ],
)
def test_wrong_registers_are_refused(bits, taps, message):
    with pytest.raises(UserError, match=message):
        Lfsr(bits, taps)


@pytest.mark.parametrize(
    ("leap", "message"), [(3, "factor 3"), (5, "factor 5"), (0, "not in 1 to 8"), (9, "not in 1 to 8")]
)
def test_a_leap_that_is_not_maximal_is_refused(leap, message):
    with pytest.raises(UserError, match=message):
        Lfsr(8).check_leap(leap)
