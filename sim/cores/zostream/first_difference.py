"""Find a core's first wrong operation and token: rerun the wrong step with a trace of the activation memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ....boards.cores.zostream.job import StreamTrainer
from ....boards.host.driver import Core
from ....golden.axi.bus import BEAT
from ....golden.cores.zostream.memory_trace import MemoryTrace, MemoryTraceLayout
from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.fixed import Integers, Narrower
from ....golden.stream.words import TensorName
from ....golden.zo.job import ZerothOrderJob
from ....hw.cores.zostream.memory_trace import TracedZostream
from ....hw.verilog import generate
from ...compiled.build import build
from ...compiled.comparison import observable
from ...compiled.device import SimulatedDevice
from ...compiled.playing import Played
from ...compiled.session import Bytes
from ..zeroth_order_job import TrainingJob, same


def traced_core(spec: ZostreamSpec) -> Path:
    """Compile a core with the monitor of its activation memory; return the library's path."""
    shown = observable(spec)
    return build(generate(shown, block=TracedZostream(shown)).verilog, spec.name, spec.memory_ports)


def first_difference(spec: ZostreamSpec, job: TrainingJob, golden: Played, played: Played) -> str | None:
    """Describe the first step with wrong records, its first wrong operation and token; None if no record is wrong.

    `golden` is the job as played on golden, `played` the job on the core.
    """
    layout, split = spec.layout(job.network.program), job.settings.split
    before = np.concatenate([np.zeros_like(golden.images[:1]), golden.images])
    steps = zip(job.steps, before, *(split.steps(run.ran.slopes) for run in (golden, played)), strict=False)
    for number, (step, image, expected, measured) in enumerate(steps):
        wrong = [index for index, pair in enumerate(zip(expected, measured, strict=True)) if not same(*pair)]
        if not wrong:
            continue
        if split.cut:
            return f"step {number}: a record differs"
        alone = replace(job, steps=[step], position=expected[0].position, deltas=layout.deltas_of(image))
        traces = _traced(spec, alone)
        pass_traces = np.split(traces, len(expected))[wrong[0]] if len(traces) % len(expected) == 0 else traces[:0]
        trace = MemoryTrace(job.network, MemoryTraceLayout(spec.engine.chunks), pass_traces)
        values = spec.values_of(job.inputs)[step.indices]
        place = trace.first_difference(values, _sides(spec, alone, expected[wrong[0]].position))
        alike = "a record differs, and no operation does with the right deltas"
        return f"step {number}: {place or alike}"
    return None


def _sides(spec: ZostreamSpec, job: TrainingJob, position: int) -> list[dict[TensorName, Integers]]:
    """Parameters with a perturbation added, and with it subtracted."""
    model, integers = job.network.model, ZerothOrderJob(job.network.model, spec.generator, job.settings)
    assert job.deltas is not None
    integers.rows = job.deltas
    (tuned,) = integers.parts
    tables = (tuned.deltas.along(position, side) for side in (integers.eps, -integers.eps))
    return [model.parameters(tuned.offsets(table, Narrower())) for table in tables]


def _traced(spec: ZostreamSpec, job: TrainingJob) -> Bytes:
    """Image of the memory after each instruction of a step."""
    device = SimulatedDevice(traced_core(spec))
    host = StreamTrainer(Core.on(spec, device), spec, caches=False)  # all operations
    job.load(host)
    job.start(host)
    device.trace_image(np.zeros(MemoryTraceLayout(spec.engine.chunks).beats * BEAT, np.uint8))
    job.run(host)
    return device.traced_images
