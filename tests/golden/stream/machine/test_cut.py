"""Programs of cut networks: each segment computes its share of the model, with its own words."""

import dataclasses

import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q8_16, Narrower
from fabtune.golden.stream.frozen_base import Nf4Weights
from fabtune.golden.stream.instruction import NO_WORD
from fabtune.golden.stream.machine.layout import HEADER_BEATS, digest
from fabtune.golden.stream.machine.limits import Reason
from fabtune.golden.stream.machine.program import ProgramError, decode_program, program_of
from fabtune.golden.stream.machine.schedule import TransformerSchedule
from fabtune.golden.stream.transformer_model import TransformerModel
from tests.golden.stream.machine.program_machine import Machine
from tests.golden.stream.machine.test_layout import made
from tests.golden.stream.machine.test_program import LENGTHS, SMALL, own
from tests.own_transformers import NETWORKS, rows_of


def run(machine, instructions, lengths, buffer, values):
    """Results of some instructions, the first reading values from a buffer."""
    machine.lengths, machine.narrow = lengths, Narrower()
    machine.write(buffer, values)
    for one in instructions:
        machine.write(one.destination, machine.result(one))
    return machine.read(one.destination, one.outputs)


def cut_program(name, cut, tuned=lambda name: True):
    layout, tensors = made(*own(name), SMALL)
    layout = dataclasses.replace(layout, cut=cut)
    return layout, tensors, program_of(layout, bytes(32), tuned)


@pytest.mark.parametrize("name", NETWORKS)
def test_what_passes_the_cut_is_all_that_the_second_part_reads(name):
    plain, tensors = made(*own(name), SMALL)
    network, lengths = plain.transformer.network, (1,) * 6 if name == "connected" else LENGTHS
    rows = Q8_16.from_float(rows_of(network, lengths))
    integers = {key: one.dequantised() if isinstance(one, Nf4Weights) else one for key, one in tensors.items()}
    outputs, _ = plain.transformer.run(integers, rows, lengths)
    for cut in network.cuts:
        layout = dataclasses.replace(plain, cut=cut)
        image = layout.encode(tensors, {})
        body = image[HEADER_BEATS * 16 :]
        program = program_of(layout, digest(body))
        found = decode_program(program.encode(), SMALL)
        assert found == program
        assert all(one.part == (one.number >= cut) for one in found.instructions)
        first, second = found.instructions[: found.cut], found.instructions[found.cut :]
        machines = [Machine(found, layout.decode(image), body) for _ in range(2)]
        passed = run(machines[0], first, lengths, found.inputs, rows)
        assert (passed == outputs[network.crossing(cut)]).all()
        assert (run(machines[1], second, lengths, first[-1].destination, passed) == outputs[-1]).all()


@pytest.mark.parametrize("name", NETWORKS)
def test_words_of_each_part_begin_at_0(name):
    network = own(name)[0]
    cut = network.cuts[len(network.cuts) // 2]
    layout, _, program = cut_program(name, cut)
    whole = TransformerModel(layout.transformer, {}, lanes=16, columns=4)
    parts = whole.parts(cut)
    assert (program.words, program.behind) == tuple(part.words for part in parts)
    for one in program.instructions:
        places = parts[one.part].order.places
        for field, kinds in (
            ("word", ("factor", "weight")),
            ("bias_word", ("bias",)),
            ("position_word", ("position",)),
        ):
            place = next((places[one.number, kind] for kind in kinds if (one.number, kind) in places), None)
            assert getattr(one, field) == (place.start if place else NO_WORD)
    # below the cut weights are fixed: all words are above
    _, _, fixed = cut_program(name, cut, lambda name: name[0] >= cut)
    assert (fixed.words, fixed.behind) == (0, parts[1].words)


def test_nothing_behind_the_cut_is_tuned():
    cut = own("encoder")[0].cuts[-1]
    with pytest.raises(UserError, match="no tensor is tuned"):
        cut_program("encoder", cut, lambda name: name[0] < cut)


def test_a_cut_where_more_than_one_value_passes_is_refused():
    transformer = made(*own("encoder"), SMALL)[0].transformer
    wrong = next(cut for cut in range(1, len(transformer.network.operations)) if cut not in transformer.network.cuts)
    with pytest.raises(UserError, match=rf"is no place for a cut \({wrong}\)"):
        TransformerSchedule(transformer, 16, 4, wrong)


@pytest.mark.parametrize(
    ("changed", "number"),
    [({0: 1}, 0), ({-1: 0}, -1), ({5: 0}, 5), ({"behind": 0}, -1)],
    ids=["first", "last", "behind", "no words"],
)
def test_parts_that_are_not_one_behind_the_other_are_refused(changed, number):
    network = own("encoder")[0]
    head = len(network.operations) - 1, "weight"
    _, _, program = cut_program("encoder", network.cuts[0], lambda name: name == head)
    instructions = list(program.instructions)
    for at, part in changed.items():
        if at != "behind":
            instructions[at] = dataclasses.replace(instructions[at], part=part)
    behind = changed.get("behind", program.behind)
    instructions = tuple(dataclasses.replace(one, word=NO_WORD) for one in instructions)
    with pytest.raises(ProgramError, match=r"it is of part \d, with \d+ words behind a cut") as refused:
        dataclasses.replace(program, instructions=instructions, behind=behind).check()
    assert (refused.value.reason, refused.value.number) == (Reason.CUT, number % len(instructions))


def test_words_beyond_those_of_their_part_are_refused():
    _, _, program = cut_program("encoder", own("encoder")[0].cuts[0])
    for changed in ({"words": program.words - 1}, {"behind": program.behind - 1}):
        with pytest.raises(ProgramError, match="words are outside") as refused:
            dataclasses.replace(program, **changed).check()
        assert (refused.value.number < program.cut) == ("words" in changed)
