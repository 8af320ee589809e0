# amaranth: UnusedElaboratable=no
"""The trainer of docs/composing-a-core.md on streamed transformers, whose engine is one of golden's functions."""

from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np
import pytest

from fabtune.golden.cores.shell import CoreRegisters
from fabtune.golden.cores.zeroth_order.registers import Command
from fabtune.golden.cores.zostream.registers import CORE
from fabtune.golden.cores.zostream.zostream import ZostreamSpec
from fabtune.golden.zo.deltas import PerturbationTable
from fabtune.golden.zo.step_settings import StepSettings
from fabtune.hw.cores.zeroth_order.zeroth_order_core import ZerothOrderCore
from fabtune.hw.cores.zostream.stream_passes import StreamPasses
from fabtune.hw.verilog import emit

from ...play import play_interface
from ..slope_meter import UPHILL, MeterJob, MeterSequencer
from ..zostream.golden_engine import GoldenEngine
from ..zostream.stream_board import GENERATOR, SPEC, Board, command

POSITION = 9


@dataclass(frozen=True, kw_only=True)
class StreamedMeterSpec(ZostreamSpec):
    """Parameters of the core."""

    name: ClassVar[str] = "streamed_meter"
    registers: ClassVar[CoreRegisters] = replace(CORE, name="streamed_meter", counters=(*CORE.counters, UPHILL))


class StreamedMeter(ZerothOrderCore):
    """RTL of the core."""

    passes, sequencer = StreamPasses, MeterSequencer


SMALL = StreamedMeterSpec(**{field.name: getattr(SPEC, field.name) for field in fields(SPEC)})


@pytest.mark.slow
def test_slopes_are_goldens_and_deltas_stay():
    board, settings = Board(), StepSettings(eps_shift=8)
    (rate,), settings = settings.with_rates([0.02], [6], PerturbationTable(GENERATOR))
    job = MeterJob(board.model, GENERATOR, settings, POSITION)
    (step,) = board.steps(np.random.default_rng(3), [rate])
    for region in (board.layout.state(POSITION), board.layout.records(1, 6), board.layout.deltas()):
        board.place(region)
    registers = board.settings | SPEC.step_registers(settings, board.images) | {"position": POSITION}
    meter = MeterSequencer(SMALL, StreamPasses(SMALL))
    engine = GoldenEngine(meter.engine, board.images, SPEC, np.random.default_rng(5))
    records = board.layout.records_image(job.step(board.inputs(step), step.labels, rate), 6)
    ends = []

    async def body(bench):
        for code in (Command.LOAD, Command.TRAIN, Command.SAVE_DELTAS):
            ends.append(await command(bench, code, registers))

    outside = board.outside
    background = [outside.reader(0, meter.reader0), outside.writer(0, meter.writer0), *engine.background]
    play_interface(meter, body=body, background=background, limit=40_000)
    assert [fault for _, fault in ends] == [None] * 3
    assert [counts["steps_done"] for counts, _ in ends] == [0, 1, 0]
    assert ends[1][0]["uphill"] == job.uphill
    assert np.array_equal(outside.image(registers["records"], records.size), records)
    assert not outside.image(registers["deltas"], board.layout.deltas().size).any()


@pytest.mark.slow
def test_the_core_is_emitted():
    assert "module streamed_meter(" in emit(SMALL).verilog
