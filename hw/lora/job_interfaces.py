"""Interfaces between schedulers, engine and trainer."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.lora.adapters import MAXIMUM_RATE

RATE = MAXIMUM_RATE.bit_length()
"""Bits of a learning rate, unsigned."""
ENTRY = data.StructLayout({"index": 24, "label": 8})
"""Entry of the sample schedule."""
COUNTED = unsigned(10)
"""Count of new samples, modulo 1024: more than the new samples in flight, those of two batches."""


@dataclass(frozen=True)
class JobOptions:
    """Options of a generated core.

    Parameters
    ----------
    rates : bool
        Learning rates by batch.
    stops : bool
        Sums of the losses of each epoch; a job may end after any epoch.
    validates : bool
        Validation batches after each epoch.
    """

    rates: bool = False
    stops: bool = False
    validates: bool = False


PLAIN = JobOptions()
"""Without options."""


class OptionalSettings(wiring.Signature):
    """Settings of a job that depend on the core's options.

    Members
    -------
    rates : Out(1), with `JobOptions.rates`
        The word after a batch's entries is its learning rate.
    stop : Out(1), with `JobOptions.stops`
        End after an epoch with a low loss.
    validation_samples : Out(32), with `JobOptions.validates`
        Entries of the validation after each epoch; 0 for none.
    """

    def __init__(self, options: JobOptions) -> None:
        members = (
            (options.rates, "rates", Out(1)),
            (options.stops, "stop", Out(1)),
            (options.validates, "validation_samples", Out(32)),
        )
        super().__init__({name: member for present, name, member in members if present})


class BatchOptions(wiring.Signature):
    """Properties of a batch that depend on the core's options.

    Members
    -------
    rate : Out, `RATE` bits, with `JobOptions.rates`
        Learning rate.
    learn : Out(1), with `JobOptions.validates`
        Training batch; else a validation batch.
    """

    def __init__(self, options: JobOptions) -> None:
        members = ((options.rates, "rate", Out(RATE)), (options.validates, "learn", Out(1)))
        super().__init__({name: member for present, name, member in members if present})


class JobSettings(wiring.Signature):
    """Job, from the trainer to the schedulers.

    Parameters
    ----------
    batch : int
        Most samples of a batch.
    address : int
        Bits of a byte address.

    Members
    -------
    start : Out(1)
        Begin a job; one cycle. All other members are stable from the previous cycle to the end of the job.
    infer : Out(1)
        Infer, without the cache; else tune.
    raw : Out(1)
        Records are in Q8.16; else in NF4.
    samples, order, cache : Out, `address` bits
        Byte addresses of the samples, the schedule and the cache.
    cache_entries, samples_per_epoch, epochs : Out(32)
        Settings of the command.
    batch : Out(range(batch + 1))
        Samples of a batch; the last batch of an epoch has the rest.
    options : Out, `OptionalSettings`
    """

    def __init__(self, batch: int, address: int, options: JobOptions = PLAIN) -> None:
        super().__init__(
            {
                **{name: Out(1) for name in ("start", "infer", "raw")},
                **{name: Out(address) for name in ("samples", "order", "cache")},
                **{name: Out(32) for name in ("cache_entries", "samples_per_epoch", "epochs")},
                "batch": Out(range(batch + 1)),
                "options": Out(OptionalSettings(options)),
            }
        )


class BatchDescriptor(wiring.Signature):
    """Scanned batch, from the sample scheduler to the batch scheduler.

    Parameters
    ----------
    batch : int
        Most samples of a batch.

    Members
    -------
    valid : Out(1)
        The new samples of the batch are on their way to the cache. Held until `ready`.
    ready : In(1)
        Takes the batch: `count`, `goal` and `options`.
    count : Out(range(batch + 1))
        Samples of the batch.
    goal : Out(COUNTED)
        New samples since reset, this batch's included, modulo 1024: the batch is complete at this number of records.
    options : Out, `BatchOptions`
    number : In(range(batch + 1))
        Address of an entry of the batch taken last.
    entry : Out(ENTRY)
        Entry `number`, a cycle later.
    side : Out(1)
        Half of the order memory with this batch.
    """

    def __init__(self, batch: int, options: JobOptions = PLAIN) -> None:
        count = range(batch + 1)
        super().__init__(
            {
                "valid": Out(1),
                "ready": In(1),
                "count": Out(count),
                "goal": Out(COUNTED),
                "options": Out(BatchOptions(options)),
                "number": In(count),
                "entry": Out(ENTRY),
                "side": Out(1),
            }
        )


class NewSample(wiring.Signature):
    """Sample without a record, from the sample scheduler to the trainer.

    Parameters
    ----------
    address : int
        Bits of a byte address.

    Members
    -------
    start : Out(1)
        The sample's read command is accepted, its beats follow; one cycle, only while `ready`.
    record : Out, `address` bits
        Byte address of the record, valid with `start`.
    near : In(1)
        A buffer is free, and few beats of the previous sample are missing: the read command may be issued.
    ready : In(1)
        A buffer is free, and the previous sample has arrived; low at most two cycles after `start`.
    """

    def __init__(self, address: int) -> None:
        super().__init__({"start": Out(1), "record": Out(address), "near": In(1), "ready": In(1)})


class BatchLoad(wiring.Signature):
    """Load of a batch, from the batch scheduler to the unpacker.

    Parameters
    ----------
    batch : int
        Most samples of a batch.

    Members
    -------
    start : Out(1)
        Begin a batch; one cycle.
    raw : Out(1)
        Records are in Q8.16; stable during the job.
    count : Out(range(batch + 1))
        Samples of the batch.
    half : Out(1)
        Half of the batch memory to fill. `count` and `half` are stable while `busy`.
    busy : In(1)
        From the cycle after `start` to the write of the last word.
    """

    def __init__(self, batch: int) -> None:
        super().__init__(
            {"start": Out(1), "raw": Out(1), "count": Out(range(batch + 1)), "half": Out(1), "busy": In(1)}
        )


class LoadedBatch(wiring.Signature):
    """Loaded batch, from the batch scheduler to the trainer.

    Parameters
    ----------
    batch : int
        Most samples of a batch.

    Members
    -------
    valid : Out(1)
        The batch is in the batch memory; one cycle.
    half : Out(1)
        Half of the batch memory.
    count : Out(range(batch + 1))
        Samples of the batch.
    options : Out, `BatchOptions`
    """

    def __init__(self, batch: int, options: JobOptions = PLAIN) -> None:
        members = {"valid": Out(1), "half": Out(1), "count": Out(range(batch + 1))}
        super().__init__(members | {"options": Out(BatchOptions(options))})


class LabelWrite(wiring.Signature):
    """Write of a label.

    Parameters
    ----------
    batch : int
        Most samples of a batch.

    Members
    -------
    enable : Out(1)
        Write in this cycle.
    address : Out(range(2 * batch))
        Index of the sample in its batch; plus `batch` in the second half.
    label : Out(8)
        Class of the sample.
    """

    def __init__(self, batch: int) -> None:
        super().__init__({"enable": Out(1), "address": Out(range(2 * batch)), "label": Out(8)})


class BatchRun(wiring.Signature):
    """Computation of a batch, from the trainer to the engine.

    Parameters
    ----------
    batch : int
        Most samples of a batch.

    Members
    -------
    start : Out(1)
        Compute the batch; one cycle, not during another batch.
    half : Out(1)
        Half of the batch memory.
    count : Out(range(batch + 1))
        Samples of the batch, 1 or more.
    learn : Out(1)
        Update the adapters; else stop at the gradients of the hidden values.
    rate : Out, `RATE` bits
        Learning rate of a sample, 20 fraction bits.
    labels_done : In(1)
        The labels may be overwritten; one cycle, at `done` or before.
    done : In(1)
        End of the batch; one cycle. The outputs above are stable until then; `start` may come in the next cycle.
    """

    def __init__(self, batch: int) -> None:
        super().__init__(
            {
                "start": Out(1),
                "half": Out(1),
                "count": Out(range(batch + 1)),
                "learn": Out(1),
                "rate": Out(RATE),
                "labels_done": In(1),
                "done": In(1),
            }
        )
