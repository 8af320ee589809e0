"""A client's message: its bytes, and all refusals."""

import struct
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabtune.golden.errors import UserError
from fabtune.golden.train.federated.message import Message
from fabtune.golden.zo.scalars import LARGEST, Scalars, StepLayout

MESSAGE = Message(3, 7, 123_456_789_012, 50, 1, 2, (Scalars(4, (-127, 5)), Scalars(0, (0, 127))))
BYTES = bytes.fromhex(
    "4642545a01010200"  # FBTZ, version 1, P1 = 1, P2 = 2
    "0300000007000000"  # round, client
    "141a99be1c000000"  # position
    "3200000002000000"  # share, steps
    "048105"  # a step
    "00007f"
)


def checked(body):
    return body + struct.pack("<I", zlib.crc32(body))


def test_the_bytes_are_as_published():
    assert MESSAGE.to_bytes() == checked(BYTES)
    assert Message.from_bytes(checked(BYTES)) == MESSAGE


scalars = st.builds(Scalars, st.integers(0, 24), st.tuples(*[st.integers(-127, 127)] * 6))


@given(
    st.builds(
        Message,
        *[st.integers(0, (1 << 32) - 1)] * 2,
        st.integers(0, (1 << 64) - 1),
        st.integers(1, 1 << 20),
        st.just(2),
        st.just(3),
        st.lists(scalars, max_size=5).map(tuple),
    )
)
def test_messages_survive_encoding_and_decoding(message):
    data = message.to_bytes()
    assert Message.from_bytes(data) == message
    assert len(data) == 36 + 7 * len(message.steps)


@given(st.binary(max_size=80))
def test_any_garbage_is_refused(data):
    with pytest.raises(UserError):
        Message.from_bytes(data)


@given(st.integers(0, 8 * len(BYTES) + 31))
def test_any_changed_bit_is_refused(bit):
    data = checked(BYTES)
    changed = (int.from_bytes(data, "little") ^ 1 << bit).to_bytes(len(data), "little")
    with pytest.raises(UserError):
        Message.from_bytes(changed)


WRONG = {
    "is of version 2": BYTES[:4] + b"\2" + BYTES[5:],
    "begins with b'FBTX'": b"FBTX" + BYTES[4:],
    "reserved fields 9": BYTES[:7] + b"\x09" + BYTES[8:],
    "0 x 2 scalars": BYTES[:5] + b"\0" + BYTES[6:28] + b"\6\0\0\0" + BYTES[32:],
    "2 steps of 1 x 2": BYTES + b"\0",
    "1 steps of 1 x 2": BYTES[:28] + b"\1\0\0\0" + BYTES[32:],
    "share 0": BYTES[:24] + bytes(4) + BYTES[28:],
    "share 1048577": BYTES[:24] + b"\1\0\x10\0" + BYTES[28:],
    "step 1 has shift 25": BYTES[:-3] + b"\x19\0\0",
    "scalars from -128": BYTES[:-3] + b"\0\x80\0",
}


@pytest.mark.parametrize("complaint", WRONG)
def test_refusals_say_what_is_wrong(complaint):
    with pytest.raises(UserError, match=complaint):
        Message.from_bytes(checked(WRONG[complaint]))


@given(st.lists(st.integers(-LARGEST << 24, LARGEST << 24), min_size=1, max_size=8))
def test_scalars_are_the_nearest_bytes(coefficients):
    found = Scalars.of(coefficients)
    assert all(abs(one) <= LARGEST for one in found.values)
    step = 1 << found.shift
    for exact, moved in zip(coefficients, found.coefficients, strict=True):
        assert 2 * abs(exact - moved) <= step
    if found.shift:
        # a smaller shift would overflow the largest
        assert max(map(abs, coefficients)) > 127 * step // 2
    else:
        assert found.coefficients == tuple(coefficients)


def test_a_step_that_is_too_long_is_refused():
    assert Scalars.of([127 << 24]).values == (127,)
    with pytest.raises(UserError, match="lower the rate"):
        Scalars.of([128 << 24])


def test_positions_and_moves_of_a_step():
    layout = StepLayout(2, 3, (10, 4))
    assert layout.span == 2 * (10 + 3 * 4)
    assert layout.positions(100) == [(100, [110, 114, 118]), (122, [132, 136, 140])]
    one = Scalars(1, (1, -2, 3, 4, 5, -6))
    first, second = layout.moves(100, [one, replace(one, shift=0)])
    assert first == [(100, 4), (122, 6), (144, 2), (166, 3)]
    assert second[:6] == [(110, 2), (114, -4), (118, 6), (132, 8), (136, 10), (140, -12)]
    assert second[6] == (154, 1)
