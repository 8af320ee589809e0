"""`sample_loader` by hand: chunks of both sides, unwritten padding, refusals; with the memory."""

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.stream.memory.activation_memory import ActivationMemorySpec
from fabtune.golden.stream.memory.sample_loader import SampleLoaderSpec, Status
from fabtune.golden.stream.memory.samples import token_rows

SPEC = SampleLoaderSpec(lanes=8, columns=4, rows=200, wide_rows=100, sums=8)


def run(operations, values, words=1000):
    """Writes and statuses of operations (rows, features, wide, base, stride), with tokens for all."""
    data = np.concatenate([np.zeros(0, np.uint8), *(token_rows(one) for one in values)]).view("<u4").reshape(-1, 4)
    names = ("rows", "features", "wide", "base", "stride")
    given = {name: np.array([[one[at]] for one in operations]) for at, name in enumerate(names)}
    found = SPEC.run({"operation": given, "beats": {"data": data}}, words)
    writes = found["write"]
    places = zip(*(writes[name][:, 0].tolist() for name in ("wide", "address", "part")), strict=True)
    return list(zip(places, writes["value"].tolist(), strict=True)), found["done"]["status"][:, 0].tolist()


def test_chunks_of_both_sides():
    values = np.arange(20).reshape(2, 10)
    writes, status = run([(2, 10, 0, 50, 7)], [values])
    padded = np.pad(values, ((0, 0), (0, 2))).reshape(2, 3, 4).tolist()
    places = [((0, 50, 0), (0, 52, 0)), ((0, 50, 1), (0, 52, 1)), ((0, 57, 0), (0, 59, 0))]
    expected = [(place, chunk) for both, chunk in zip(places, padded[0], strict=True) for place in both]
    expected += [
        ((0, address + 1, part), chunk)
        for both, chunk in zip(places, padded[1], strict=True)
        for _, address, part in both
    ]
    assert writes == expected
    assert status == [Status.LOADED]
    assert run([(2, 10, 0, 50, 7)], [values], words=3)[0] == expected[:3]


def test_wide_values_are_signed():
    writes, _ = run([(1, 4, 1, 3, 4)], [np.array([[-1, -(1 << 23), 2, 3]])])
    assert writes == [((1, 3, 0), [-1, -(1 << 23), 2, 3]), ((1, 4, 0), [-1, -(1 << 23), 2, 3])]


def test_what_is_refused_takes_no_beat():
    values = np.ones((1, 4), int)
    operations = [(0, 4, 0, 0, 8), (1, 0, 0, 0, 8), (2, 4, 0, 0, 3), (5, 4, 0, 0, 50), (1, 4, 0, 0, 2)]
    writes, status = run(operations, [values])
    assert status == [Status.EMPTY, Status.EMPTY, Status.CAPACITY, Status.CAPACITY, Status.LOADED]
    assert [place for place, _ in writes] == [(0, 0, 0), (0, 1, 0)]


def test_an_operation_waits_for_its_beats():
    assert run([(1, 33, 0, 0, 8)], [np.ones((1, 32), int)]) == ([], [])


def test_tokens_are_read_from_the_memory():
    rng = np.random.default_rng(1)
    values = rng.integers(-(1 << 23), 1 << 23, (3, 21))
    names = ("rows", "features", "wide", "base", "stride")
    given = dict(zip(names, np.array([[[3]], [[21]], [[0]], [[10]], [[6]]]), strict=True))
    data = token_rows(values).view("<u4").reshape(-1, 4)
    write = SPEC.run({"operation": given, "beats": {"data": data}}, 1000)["write"]
    memory = ActivationMemorySpec(lanes=8, columns=4, rows=200, wide_rows=100, row_tag=0, key_tag=0, operand_tag=0)
    none = np.zeros((0, 1), np.int64)
    for row in range(3):
        # the second part of the third row has no values of the token
        reads = {"rows_read": {"address": np.array([[10 + row], [16 + row + 3]])}, "keys_read": {"address": none}}
        reads["operands_read"] = {"wide": none, "address": none, "part": none}
        found = memory.run({"write": write} | reads, 1000)["rows"]["value"]
        assert found.tolist() == [values[row, :8].tolist(), values[row, 8:16].tolist()]


@pytest.mark.parametrize(
    "settings", [{"columns": 64, "lanes": 64}, {"sums": 6}, {"sums": 2}, {"lanes": 24}, {"wide_rows": 0}]
)
def test_refused(settings):
    name, value = next(iter(settings.items()))
    with pytest.raises(UserError, match=f"{name} = {value}"):
        SampleLoaderSpec(**settings)
