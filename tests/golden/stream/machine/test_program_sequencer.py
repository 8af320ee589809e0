"""`program_sequencer` dispatches the decoded program, and refuses as the host does; its limits."""

import dataclasses

import numpy as np
import pytest

from fabtune.golden.axi.bus import BEAT
from fabtune.golden.errors import UserError
from fabtune.golden.stream.instruction import FIELD_BITS, Kind
from fabtune.golden.stream.machine.core_size import CoreSize
from fabtune.golden.stream.machine.limits import Reason
from fabtune.golden.stream.machine.program import decode_program
from fabtune.golden.stream.machine.program_sequencer import LOAD, RUN, ProgramSequencerSpec
from fabtune.sim.stream.machine.wrong_operations import WRONG_OPERATIONS, kind_of, wrong_program
from tests.golden.stream.machine.test_program import whole

SIZE = CoreSize.of_array("16x4")
SPEC = ProgramSequencerSpec(**{name: getattr(SIZE, name) for name in ("lanes", "columns", "rows", "wide_rows", "sums")})


def outputs(images, commands, error=False, spec=SPEC):
    """Statuses and instructions of commands; loads take the images in order."""
    left = iter(images)
    beats = [len(next(left)) // BEAT if run == LOAD else 0 for run, _ in commands]
    run, first = (np.array(column)[:, None] for column in zip(*commands, strict=True))
    data = np.concatenate(images).reshape(-1, BEAT).astype(np.int64)
    image = {"data": data, "error": np.full((len(data), 1), int(error))}
    found = spec.run({"command": {"run": run, "first": first, "count": np.array(beats)[:, None]}, "image": image}, 1000)
    return found["status"], found["o"]


def test_instructions_are_those_of_the_decoded_program():
    _, program = whole("decoder", SIZE)
    image = program.encode()
    status, given = outputs([image], [(LOAD, 0), (RUN, 0), (RUN, 3)])
    decoded = decode_program(image, SIZE).instructions
    expected = [*decoded, *decoded[3:]]
    assert [tuple(given[name][at, 0] for name in FIELD_BITS) for at in range(len(expected))] == [
        dataclasses.astuple(one) for one in expected
    ]
    told = {name: column[0, 0] for name, column in status.items()}
    assert told["reason"] == Reason.NONE
    assert told["operations"] == len(decoded)
    assert (told["capacity"], told["words"], told["beats"]) == (program.capacity, program.words, program.beats)


@pytest.mark.parametrize("wrong", [name for name in WRONG_OPERATIONS if name != "last"])
def test_it_refuses_with_the_operation_s_number_and_runs_nothing(wrong):
    _, program = whole("encoder", SIZE)
    number, image = kind_of(program, WRONG_OPERATIONS[wrong][0]), wrong_program(program, wrong).image()
    status, given = outputs([program.image(), image], [(LOAD, 0), (LOAD, 0), (RUN, 0)])
    assert Reason.KIND <= status["reason"][1, 0] <= Reason.LAST
    assert status["place"][1, 0] == number
    assert status["reason"][2, 0] == Reason.NO_PROGRAM
    assert len(given["kind"]) == 0


def test_a_core_of_fewer_features_refuses_vectors_that_its_memories_do_not_hold():
    _, program = whole("encoder", SIZE)
    biased = [one.outputs for one in program.instructions if one.biased]
    for features, reason in ((max(biased), Reason.NONE), (max(biased) - 1, Reason.SIZE)):
        spec = dataclasses.replace(SPEC, features=features)
        assert outputs([program.image()], [(LOAD, 0)], spec=spec)[0]["reason"][0, 0] == reason
    norms = [dataclasses.replace(one, biased=0) for one in program.instructions]
    spec = dataclasses.replace(SPEC, features=min(one.outputs for one in norms if one.kind == Kind.NORM) - 1)
    image = dataclasses.replace(program, instructions=tuple(one for one in norms if one.kind != Kind.POSITIONS)).image()
    assert outputs([image], [(LOAD, 0)], spec=spec)[0]["reason"][0, 0] == Reason.NORM


def test_other_images_are_refused():
    _, program = whole("encoder", SIZE)
    image, (_, other) = program.encode(), whole("encoder", CoreSize())
    version = image.copy()
    version[4] ^= 1
    for images, reason in [
        ([image[:BEAT]], Reason.MAGIC),
        ([version], Reason.VERSION),
        ([other.encode()], Reason.CORE),
        ([image[:-BEAT]], Reason.LENGTH),
        ([dataclasses.replace(program, instructions=()).image()], Reason.EMPTY),
        ([dataclasses.replace(program, capacity=0).image()], Reason.CAPACITY),
        ([dataclasses.replace(program, instructions=program.instructions[:-1]).image()], Reason.LAST),
    ]:
        assert outputs(images, [(LOAD, 0)])[0]["reason"][0, 0] == reason
    assert outputs([image], [(LOAD, 0)], error=True)[0]["reason"][0, 0] == Reason.BUS
    status, _ = outputs([image], [(RUN, 0), (LOAD, 0), (RUN, len(program.instructions))])
    assert status["reason"][:, 0].tolist() == [Reason.NO_PROGRAM, Reason.NONE, Reason.NO_OPERATION]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lanes": 24}, "lanes = 24"),
        ({"columns": 1}, "columns = 1"),
        ({"operations": 0}, "operations = 0"),
        ({"features": 4097}, "features = 4097 is not in 1 to 4096"),
    ],
)
def test_limits(settings, message):
    with pytest.raises(UserError, match=message):
        ProgramSequencerSpec(**settings)
