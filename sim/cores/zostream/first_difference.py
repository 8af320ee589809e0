"""First operation and token that a core computes otherwise than golden: its step again, with the memory traced."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ....boards.cores.zostream.job import StreamTrainer
from ....golden.axi.bus import BEAT
from ....golden.cores.zostream.memory_trace import MemoryTrace, MemoryTraceLayout
from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.fixed import Integers, Narrower
from ....golden.stream.words import TensorName
from ....golden.zo.job import ZerothOrderJob, ZerothOrderStep
from ....golden.zo.memory_layout import StepOrder
from ....hw.cores.zostream.memory_trace import MemoryTrace as TracedCore
from ....hw.verilog import generate
from ...compiled.build import build
from ...compiled.comparison import observable
from ...compiled.device import SimulatedDevice
from ..zeroth_order_job import same
from .job import StreamJob


def traced_core(spec: ZostreamSpec) -> Path:
    """Emit and compile a core whose monitor shows its memory."""
    shown = observable(spec)
    return build(generate(shown, block=TracedCore(shown)).verilog, spec.name, spec.memory_ports)


def first_difference(spec: ZostreamSpec, job: StreamJob, slopes: Sequence[ZerothOrderStep]) -> str | None:
    """Find the first step whose records differ, and in it the first operation and token; None where none differs.

    Parameters
    ----------
    spec : ZostreamSpec
        The core.
    job : StreamJob
    slopes : sequence of ZerothOrderStep
        The core's records, one for each slope.
    """
    golden, values = job.golden(spec), spec.values_of(job.inputs)
    for number, (step, found) in enumerate(zip(job.steps, job.settings.split.steps(slopes), strict=True)):
        position, total, rows = golden.position, golden.total.copy(), golden.rows
        expected = golden.step(values[step.indices], step.labels, step.rate)
        wrong = [at for at, pair in enumerate(zip(expected, found, strict=True)) if not same(*pair)]
        if not wrong:
            continue
        if job.settings.split.cut:
            return f"step {number}: a record differs"
        before = ZerothOrderJob(job.images.model, spec.generator, job.settings, position, total)
        traces = _traced(spec, job, step, position, rows)
        own = np.split(traces, len(expected))[wrong[0]] if len(traces) % len(expected) == 0 else traces[:0]
        trace = MemoryTrace(job.images, MemoryTraceLayout(spec.engine.chunks), own)
        place = trace.first_difference(values[step.indices], _sides(before, expected[wrong[0]].position))
        alike = "a record differs, and no operation does with the right deltas"
        return f"step {number}: {place or alike}"
    return None


def _sides(job: ZerothOrderJob, position: int) -> list[dict[TensorName, Integers]]:
    """Parameters of both sides of a perturbation."""
    (tuned,) = job.parts
    model = job.model
    tables = (tuned.deltas.along(position, side) for side in (job.eps, -job.eps))
    return [model.parameters(tuned.offsets(table, Narrower())) for table in tables]  # type: ignore[attr-defined]


def _traced(
    spec: ZostreamSpec, job: StreamJob, step: StepOrder, position: int, rows: Integers
) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Image of the memory behind each instruction of a step."""
    device = SimulatedDevice(traced_core(spec))
    host: StreamTrainer = job.driver(spec, device, caches=False)  # all operations
    job.load_network(host)
    host.load_deltas(rows)
    device.trace_image(np.zeros(MemoryTraceLayout(spec.engine.chunks).beats * BEAT, np.uint8))
    host.train(job.inputs, [step], job.settings, position)
    found: np.ndarray[tuple[int, int], np.dtype[np.uint8]] = device.traced_images
    return found
