"""Program loader: properties of a program and of its last instruction; programs without logits for the losses."""

from dataclasses import asdict, replace

import pytest

from fabtune.golden.cores.zostream.registers import PROGRAM, Error
from fabtune.golden.stream.instruction import Instruction, Kind, RowAddress
from fabtune.golden.stream.machine.limits import Reason
from fabtune.golden.stream.machine.program_sequencer import ProgramSequencerSpec
from fabtune.hw.cores.zostream.program_loader import ProgramLoader

from ...play import play_interface

SPEC = ProgramSequencerSpec(operations=16, lanes=16, columns=4, rows=512, wide_rows=128, sums=64)
CLASSES, TIMES = 10, 255
COUNTS = {"operations": 3, "capacity": 50, "features": 65, "inputs": 5, "words": 100, "behind": 0}
COUNTS |= {"stream_beats": 1, "beats": 1}
LAST = Instruction(Kind.LINEAR, inputs=9, outputs=7, destination=RowAddress(False, 6).bits, last=1)


def loaded(counts=COUNTS, last=LAST, reason=0, place=0):
    """Load a program, and run it if accepted; returns final ports, commands, and forwarded instructions."""
    dut, ports = ProgramLoader(SPEC, Error, CLASSES, TIMES), {}

    async def sequencer(bench):
        await bench.take("command", 1)
        await bench.give("status", [{"reason": reason, "place": place, **counts}])
        if not reason:
            await bench.take("command", 1)
            await bench.give("o", [asdict(last)])

    async def body(bench):
        await bench.pulse("load", beats=22)
        while not bench.get("loaded") and not bench.get("failed"):
            await bench.tick()
        await bench.tick(3)
        ports.update({name: bench.get(name) for name in dut.signature.members if hasattr(getattr(dut, name), "shape")})
        if ports["valid"]:
            await bench.pulse("run")
            assert await bench.take("command", 1) == [{"run": 1, "first": 0, "count": 0}]
            await bench.give("o", [asdict(last)])

    seen = play_interface(dut, take={"instruction": None}, body=[body, sequencer], stall=0.3)
    return ports, seen.words("instruction")


def test_a_program_is_accepted_and_runs():
    ports, instructions = loaded()
    told = {"operations": 3, "capacity": 50, "features": 65, "inputs": 5, "words": 100}
    # 65 values take three rows of 96 bytes
    told |= {"valid": 1, "failed": 0, "rows": 100, "token_beats": 18, "logit_beats": 2, "outputs": 7, "base": 300}
    assert {name: ports[name] for name in told} == told
    # the inspected instruction stays
    assert instructions == [{name: int(value) for name, value in asdict(LAST).items()}]


@pytest.mark.parametrize(("words", "rows"), [(1, 1), (254, 254), (255, 255), (256, 255), (1 << 20, 255)])
def test_rows_of_deltas_are_those_of_words_until_they_return(words, rows):
    assert loaded(COUNTS | {"words": words})[0]["rows"] == rows


@pytest.mark.parametrize(
    ("counts", "last", "reason"),
    [
        ({}, {"outputs": CLASSES + 1}, Reason.SIZE),
        ({}, {"outputs": 1 << 20}, Reason.SIZE),
        ({"features": 0}, {}, Reason.SIZE),
        ({"features": 1 << 18}, {}, Reason.SIZE),
        ({"words": 0}, {}, Reason.WORDS),
        ({}, {"destination": RowAddress(True, 6).bits}, Reason.FORMAT),
        ({}, {"result_shift": 1}, Reason.FORMAT),
    ],
)
def test_what_the_trainer_cannot_take_is_refused(counts, last, reason):
    ports, instructions = loaded(COUNTS | counts, replace(LAST, **last))
    assert (ports["failed"], ports["valid"], ports["error"], ports["number"]) == (1, 0, PROGRAM + reason, 2)
    assert not instructions


@pytest.mark.parametrize(
    ("buffer", "features", "capacity", "fits"),
    [
        (RowAddress(False, 5), 80, 51, True),  # ten rows of 16
        (RowAddress(False, 5), 81, 51, False),
        (RowAddress(False, 511), 1, 1, True),
        (RowAddress(False, 8), 1, 64, False),
        (RowAddress(False, 1 << 22), 1, 1, False),
        (RowAddress(False, (1 << 23) - 1), 1, 1, False),
        (RowAddress(True, 127), 4, 1, True),  # rows of 4
        (RowAddress(True, 127), 5, 1, False),
    ],
)
def test_inputs_outside_their_memory_are_refused(buffer, features, capacity, fits):
    ports, _ = loaded(COUNTS | {"inputs": buffer.bits, "features": features, "capacity": capacity})
    assert (ports["valid"], ports["failed"]) == (fits, not fits)
    if not fits:
        assert (ports["error"], ports["number"]) == (Error["PROGRAM_ROWS"], 0)


def test_what_the_sequencer_refuses_is_reported():
    ports, _ = loaded(COUNTS, reason=Reason.OVERLAP, place=5)
    assert (ports["failed"], ports["valid"]) == (1, 0)
    assert (ports["error"], ports["number"]) == (Error["PROGRAM_OVERLAP"], 5)


def test_a_program_that_is_cut_is_looked_at_and_runs_in_parts():
    """Two instructions before the cut, one a pool; the second one's results pass the cut."""
    dut, ports = ProgramLoader(SPEC, Error, CLASSES, TIMES), {}
    first = Instruction(Kind.POOL, inputs=9, outputs=9)
    passing = Instruction(Kind.NORM, inputs=9, outputs=9, destination=RowAddress(True, 3).bits)
    last = replace(LAST, part=1)
    counts = COUNTS | {"words": 7, "behind": 300}
    runs = [((0, 0), (0, 0), (first, passing, last)), ((0, 1), (0, 2), (first, passing)), ((1, 0), (2, 0), (last,))]

    async def sequencer(bench):
        await bench.take("command", 1)
        await bench.give("status", [{"reason": 0, "place": 0, **counts}])
        # all instructions are inspected
        assert await bench.take("command", 1) == [{"run": 1, "first": 0, "count": 0}]
        await bench.give("o", [asdict(one) for one in (first, passing, last)])
        for _, (begin, count), given in runs:
            assert await bench.take("command", 1) == [{"run": 1, "first": begin, "count": count}]
            await bench.give("o", [asdict(one) for one in given])

    async def body(bench):
        await bench.pulse("load", beats=22)
        await bench.until("loaded")
        await bench.tick(3)
        ports.update({name: bench.get(name) for name in told})
        for (behind, before), _, given in runs:
            await bench.pulse("run", behind=behind, before=before)
            await bench.tick(60 * len(given))

    told = {"cut": 1, "split": 1, "pooled": 1, "first_rows": 7, "rows": 255, "kept_outputs": 9, "kept_wide": 1}
    told |= {"kept_base": 150, "kept_beats": 3, "base": 300, "outputs": 7}
    seen = play_interface(dut, take={"instruction": None}, body=[body, sequencer], stall=0.2)
    assert ports == told
    expected = [first, passing, last, first, replace(passing, last=1), last]
    assert seen.words("instruction") == [{name: int(value) for name, value in asdict(one).items()} for one in expected]
