"""Visibility of simultaneous writes to reads, cycle by cycle, and the waits between requesters."""

import numpy as np
import pytest

from fabtune.golden.stream.memory.activation_memory import READERS, READS_AHEAD, ActivationMemorySpec
from fabtune.hw.stream.memory.activation_memory import ActivationMemory

from ...play import play_interface

SPEC = ActivationMemorySpec(lanes=4, columns=2, rows=3, wide_rows=2, row_tag=4, key_tag=0, operand_tag=3)
PARTS = SPEC.layout.parts


def chunk(rng):
    """Address of any of the few chunks."""
    wide = int(rng.integers(2))
    address = int(rng.integers(SPEC.wide_rows if wide else SPEC.rows))
    return {"wide": wide, "address": address, "part": 0 if wide else int(rng.integers(PARTS))}


def traffic(rng, count):
    """Writes and reads of all readers."""
    row = {"address": 0}
    tags = {"rows_read": SPEC.row_tag, "operands_read": SPEC.operand_tag}
    given = {
        "write": [
            chunk(rng) | {"value": rng.integers(-(1 << 23), 1 << 23, SPEC.columns).tolist()} for _ in range(count)
        ],
        "operands_read": [chunk(rng) for _ in range(count)],
        **{
            name: [row | {"address": int(rng.integers(SPEC.rows))} for _ in range(count)]
            for name in ("rows_read", "keys_read")
        },
    }
    for name, bits in tags.items():
        given[name] = [word | {"tag": int(rng.integers(1 << bits))} for word in given[name]]
    return given


def expected(seen):
    """Results of the observed reads: each sees writes of earlier cycles."""
    events = [(cycle, 1, "write", word) for cycle, word in seen["write"]]
    events += [(cycle, 0, name, word) for name in READERS for cycle, word in seen[f"{name}_read"]]
    places, found = {}, {name: [] for name in READERS}
    for _, _, name, word in sorted(events, key=lambda one: one[:3]):
        if name == "write":
            places[word["wide"], word["address"], word["part"]] = word["value"]
            continue
        tag = {"tag": word["tag"]} if "tag" in word else {}
        if name == "operands":
            value = places.get((word["wide"], word["address"], word["part"]), [0] * SPEC.columns)
        else:
            value = [one for part in range(PARTS) for one in places.get((0, word["address"], part), [0] * SPEC.columns)]
        found[name].append({"value": value} | tag)
    return found


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_a_read_sees_the_writes_of_earlier_cycles(stall):
    count = 300
    given = traffic(np.random.default_rng(3), count)
    seen = play_interface(ActivationMemory(SPEC), give=given, take=dict.fromkeys(READERS, count), stall=stall)
    assert {name: seen.words(name) for name in READERS} == expected(seen)
    together = set(seen.cycles("write")) & {cycle for name in READERS for cycle in seen.cycles(f"{name}_read")}
    assert len(together) > 20


@pytest.mark.parametrize("waits", READERS)
def test_a_reader_that_waits_holds_nobody_else_up(waits):
    given = {name: words for name, words in traffic(np.random.default_rng(1), 40).items() if name != "write"}
    take = {name: 40 for name in READERS if name != waits}
    # the results are never taken
    seen = play_interface(
        ActivationMemory(SPEC), give={n: w for n, w in given.items() if n != f"{waits}_read"}, take=take
    )
    assert seen.cycle < 90
    given[f"{waits}_read"] = given[f"{waits}_read"][:READS_AHEAD]
    seen = play_interface(ActivationMemory(SPEC), give=given, take=take)
    assert seen.cycle < 90 + READS_AHEAD


def test_operands_go_before_keys_and_keys_before_rows():
    given = traffic(np.random.default_rng(2), 20)
    for word in given["operands_read"]:
        word.update(wide=0, address=0)
    seen = play_interface(ActivationMemory(SPEC), give=given, take=dict.fromkeys(READERS, 20))
    assert [seen.cycles(f"{name}_read")[0] for name in READERS] == [0, 20, 40]
    assert [seen.cycles(f"{name}_read")[-1] for name in READERS] == [19, 39, 59]
    assert [seen.cycles(name)[0] - seen.cycles(f"{name}_read")[0] for name in READERS] == [SPEC.latency] * 3
