"""Jobs of cores as golden integer jobs, without driver, memory or golden core: the reference for both."""

import numpy as np

from fabtune.golden.lora.adapters import Adapters
from fabtune.golden.lora.early_stop import EarlyStop
from fabtune.golden.lora.forward_cache import ForwardCache, WordCodec, record_layout
from fabtune.golden.lora.job import Job
from fabtune.golden.stream.forward_cache import CachedModel
from fabtune.golden.stream.machine.images import StreamImages
from fabtune.golden.zo.job import ZerothOrderJob
from fabtune.golden.zo.network_model import NetworkModel
from fabtune.sim.cores.adapters_job import TuningJob


def integers_of(job, spec):
    """The integer job before its first batch or step."""
    return _tuning(job, spec) if isinstance(job, TuningJob) else _training(job, spec)


def run_integers(job, spec, integers):
    """Run all batches or steps up to an early stop; yields after each, with the job in the core's expected state."""
    values = spec.values_of(job.inputs)
    if isinstance(job, TuningJob):
        yield from _batches(job, integers, values)
    else:
        for step in job.steps:
            yield integers.step(values[step.indices], step.labels, step.rate)


def run_core(job, host, device):
    """Run a job on a core with its network and initial state; returns the result and the image after each step."""
    before = len(device.traced_images)
    layout, tunes = host.layout, isinstance(job, TuningJob)
    start = layout.adapters(job.adapters) if tunes else layout.deltas(integers_of(job, host.spec).rows)
    device.trace_image(start.image)
    ran = job.run(host)
    return ran, device.traced_images[before:]


def _training(job, spec):
    model, source = _model(job, spec)
    integers = ZerothOrderJob(model, source, job.settings, job.position)
    if job.deltas is not None:
        integers.rows = job.deltas
    return integers


def _model(job, spec):
    images = job.network
    if not isinstance(images, StreamImages):
        return NetworkModel(spec.mapping, images), spec.source
    return CachedModel(images.model, images.cut) if images.cached else images.model, spec.generator


def _tuning(job, spec):
    network = spec.described
    codec = WordCodec(network) if job.raw else record_layout(network)
    cache = None if spec.cache == "none" else ForwardCache(network, codec, len(job.inputs))
    adapters = Adapters(job.adapters.shape, job.adapters.flat)
    return Job(network, job.frozen, adapters, rates_of(job)[0], cache, spec.noise, loss=spec.loss)


def rates_of(job):
    """Learning rate per sample in each batch."""
    return [job.rate] * sum(map(len, job.epochs)) if isinstance(job.rate, int) else job.rate


def _batches(job, integers, values):
    rates, stop = iter(rates_of(job)), EarlyStop(job.stop_loss, job.patience)
    for epoch in job.epochs:
        for batch, rate in zip(epoch, rates, strict=False):
            yield integers.batch(values[batch], job.labels[batch], batch, rate)
        if job.validation is not None:
            size = max(map(len, job.epochs[0]))
            for batch in np.split(job.validation, range(size, len(job.validation), size)):
                yield integers.validate(values[batch], job.labels[batch], batch)
        loss = integers.end_epoch()
        if stop.ends(loss if job.validation is None else integers.validation.loss):
            return


def counts_of(spec, integers, results):
    """Expected counters of `instantft` after a job with these batch results."""
    misses = sum(one.misses for one in results)
    counts = {"batches": len(results), "misses": misses, "saturations": integers.saturations}
    counts |= {"epoch_loss": integers.epoch_loss} if spec.early_stop else {}
    loss, correct = integers.validation
    return counts | ({"validation_loss": loss, "correct": correct} if spec.validation else {})
