# amaranth: UnusedElaboratable=no
"""A custom trainer with the forward passes of both engines: it records projected gradients, and moves no deltas."""

import numpy as np
import pytest

from fabtune.golden.cores.zeroth_order.registers import Command
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.nn.arithmetic.random_parameters import random_parameters, random_samples
from fabtune.golden.zo.deltas import PerturbationTable
from fabtune.golden.zo.job import ZerothOrderJob
from fabtune.golden.zo.memory_layout import StepOrder
from fabtune.golden.zo.network_model import NetworkModel
from fabtune.golden.zo.step_settings import StepSettings
from fabtune.hw.cores.zeroth_order.sequencer import ZerothOrderSequencer
from fabtune.hw.cores.zostream.stream_passes import StreamPasses
from fabtune.hw.cores.zotrain.array_passes import ArrayPasses

from ...outside import Outside
from ...play import play_interface
from ..zostream.golden_engine import GoldenEngine
from ..zostream.stream_board import GENERATOR, SPEC, Board, command

ARRAY = ZotrainSpec(network="4 fc3", byte_inputs=False, lanes=16, columns=2)
POSITION, BASE = 9, 0x1_0000


class SlopeMeter(ZerothOrderSequencer):
    """Records the projected gradients of a step, and leaves the deltas unchanged."""

    def update_states(self, m):
        with m.State("COEFFICIENTS"):
            self.end_update(m)


def on_array():
    """A network on the array: meter, surroundings, settings, address of the records, and the integer job."""
    rng, outside, settings, layout = np.random.default_rng(2), Outside(), {}, ARRAY.layout
    frozen = random_parameters(ARRAY.described, rng)
    inputs, values, labels = random_samples(ARRAY.described, ARRAY.byte_inputs, 3, rng, ARRAY.labels)
    own = StepSettings(eps_shift=8)
    (rate,), own = own.with_rates([0.02], [3], PerturbationTable(ARRAY.source))
    step, address = StepOrder(np.arange(3), labels, rate), BASE
    images = layout.parameters(frozen), layout.samples(inputs), layout.order([step], 3), layout.state(POSITION)
    for region in (*images, layout.records(1, 3), layout.deltas()):
        settings[region.register] = address
        if region.image is not None:
            outside.load(address, region.image)
        address += -(-region.size // 4096) * 4096
    settings |= ARRAY.step_registers(own) | {"position": POSITION, "sample_count": 3, "steps": 1, "batch": 3}
    job = ZerothOrderJob(NetworkModel(ARRAY.mapping, frozen), ARRAY.source, own, POSITION)
    slopes = job.step(values, step.labels, rate)
    return SlopeMeter(ARRAY, ArrayPasses(ARRAY)), outside, [], settings, layout, layout.records_image(slopes, 3)


def on_stream():
    """The same for a streamed transformer, whose engine consists of golden functions."""
    board, own = Board(), StepSettings(eps_shift=8)
    (rate,), own = own.with_rates([0.02], [6], PerturbationTable(GENERATOR))
    job = ZerothOrderJob(board.model, GENERATOR, own, POSITION)
    (step,) = board.steps(np.random.default_rng(3), [rate])
    for region in (board.layout.state(POSITION), board.layout.records(1, 6), board.layout.deltas()):
        board.place(region)
    settings = board.settings | SPEC.step_registers(own, board.images) | {"position": POSITION}
    meter = SlopeMeter(SPEC, StreamPasses(SPEC))
    engine = GoldenEngine(meter.engine, board.images, SPEC, np.random.default_rng(5))
    slopes = job.step(board.inputs(step), step.labels, rate)
    return meter, board.outside, engine.background, settings, board.layout, board.layout.records_image(slopes, 6)


@pytest.mark.parametrize("make", [on_array, pytest.param(on_stream, marks=pytest.mark.slow)])
def test_a_trainer_of_ones_own_has_both_engines(make):
    meter, outside, background, settings, layout, records = make()
    found = []

    async def body(bench):
        for code in (Command.LOAD, Command.TRAIN, Command.SAVE_DELTAS):
            found.append(await command(bench, code, settings))

    background = [outside.reader(0, meter.reader0), outside.writer(0, meter.writer0), *background]
    play_interface(meter, body=body, background=background, limit=40_000)
    assert [fault for _, fault in found] == [None] * 3
    assert [counts["steps_done"] for counts, _ in found] == [0, 1, 0]
    assert np.array_equal(outside.image(settings["records"], records.size), records)
    assert not outside.image(settings["deltas"], layout.deltas().size).any()
