"""Steps and buffers on the chip: no value is overwritten before its last read."""

import pytest

from fabtune.golden.stream.machine.cost_model import on_paper
from fabtune.golden.stream.machine.schedule import TransformerSchedule
from fabtune.golden.transformer.blocks import Activation, Gate, Residual
from fabtune.golden.transformer.builder import INPUTS
from tests.own_transformers import NETWORKS
from tests.stream_networks import connected, decoder, encoder


def test_rows_of_minilm_are_those_of_the_design():
    """Inputs 12 and queries, keys, values 36; inputs 12 and hidden 48; sums of 384 values in rows of 16."""
    schedule = TransformerSchedule(on_paper(encoder("minilm", 6)))
    assert (schedule.rows, schedule.wide_rows) == (12 + 48, 24)
    attention = next(step for step in schedule.steps if len(step.reads) == 3)
    queries, keys, values = (schedule.places[read] for read in attention.reads)
    assert {(one.first, one.rows) for one in (queries, keys, values)} == {(12, 12), (24, 12), (36, 12)}
    assert schedule.places[attention.result] == queries


def test_a_decoder_keeps_its_residual_in_the_wide_memory():
    """SmolLM2: 18 rows of a norm and 48 hidden, the gate's product over the activation's result; residual 36."""
    schedule = TransformerSchedule(on_paper(decoder("smollm2-135m")))
    assert (schedule.rows, schedule.wide_rows) == (18 + 48, 36)
    gates = [
        step for step in schedule.steps if step.joined is not None and isinstance(_of(schedule, step.joined), Gate)
    ]
    assert len(gates) == 30
    assert all(schedule.places[step.result] == schedule.places[step.other] for step in gates)


def test_fully_connected_layers_take_two_buffers():
    assert TransformerSchedule(on_paper(connected(784, 4096, 4096, 10))).rows == 128 + 128


def test_operations_behind_a_linear_layer_are_one_step_with_it():
    schedule = TransformerSchedule(on_paper(encoder("minilm", 6)))
    network = schedule.transformer.network
    alone = [type(network.operations[step.number]) for step in schedule.steps]
    assert Activation not in alone
    assert Residual not in alone
    assert sum(step.activation is not None for step in schedule.steps) == 6
    assert sum(step.joined is not None for step in schedule.steps) == 12


@pytest.mark.parametrize("name", NETWORKS)
def test_nothing_that_is_read_later_is_overwritten(name):
    """Execute the steps on a memory of rows: each read finds the value written last."""
    schedule = TransformerSchedule(on_paper(NETWORKS[name]()[0]), 16, 4)
    rows = {}

    def written(value):
        place = schedule.places[value]
        rows.update({(place.wide, row): value for row in range(place.first, place.end)})

    def held(value):
        place = schedule.places[value]
        return all(rows[place.wide, row] == value for row in range(place.first, place.end))

    written(INPUTS)
    numbers = []
    for step in schedule.steps:
        assert all(held(value) for value in step.needs)
        written(step.result)
        numbers += [one for one in (step.number, step.activation, step.joined) if one is not None]
    assert sorted(numbers) == list(range(len(schedule.transformer.network.operations)))
    assert held(schedule.steps[-1].result)


def _of(schedule, number):
    return schedule.transformer.network.operations[number]
