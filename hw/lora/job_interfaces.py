"""Interfaces between the components that schedule a job's samples and batches."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.lora.adapters import MAXIMUM_RATE

RATE = MAXIMUM_RATE.bit_length()
"""Bits of a learning rate, which is not negative."""
ENTRY = data.StructLayout({"index": 24, "label": 8})
"""An entry of the order list: a sample's index and its label."""
COUNTED = unsigned(10)
"""Count of new samples, modulo 1024: the new samples of two batches, which may be on their way, are fewer."""


@dataclass(frozen=True)
class JobOptions:
    """Options with which a core is generated.

    Parameters
    ----------
    rates : bool
        Batches may have learning rates of their own.
    stops : bool
        The loss of each epoch is summed, and a job may end with any epoch.
    validates : bool
        Behind each epoch there may be samples that are not learnt from.
    """

    rates: bool = False
    stops: bool = False
    validates: bool = False


PLAIN = JobOptions()
"""No option."""


class OptionalSettings(wiring.Signature):
    """Settings of a job that a core has by its options, as the trainer gives them; those that it has not are absent.

    Parameters
    ----------
    options : JobOptions

    Members
    -------
    rates : Out(1), with `JobOptions.rates`
        The word behind a batch's entries is its learning rate.
    stop : Out(1), with `JobOptions.stops`
        End with an epoch whose loss is low enough.
    validation_samples : Out(32), with `JobOptions.validates`
        Entries behind each epoch's that are not learnt from; 0: there is no validation.
    """

    def __init__(self, options: JobOptions) -> None:
        members = (
            (options.rates, "rates", Out(1)),
            (options.stops, "stop", Out(1)),
            (options.validates, "validation_samples", Out(32)),
        )
        super().__init__({name: member for present, name, member in members if present})


class BatchOptions(wiring.Signature):
    """Options of a batch, as the core was generated; others are absent.

    Parameters
    ----------
    options : JobOptions

    Members
    -------
    rate : Out, `RATE` bits, with `JobOptions.rates`
        Its learning rate.
    learn : Out(1), with `JobOptions.validates`
        It is learnt from.
    """

    def __init__(self, options: JobOptions) -> None:
        members = ((options.rates, "rate", Out(RATE)), (options.validates, "learn", Out(1)))
        super().__init__({name: member for present, name, member in members if present})


class JobSettings(wiring.Signature):
    """A job, as the trainer gives it to the schedulers.

    Parameters
    ----------
    batch : int
        Most samples of a batch.
    address : int
        Bits of a byte address.
    options : JobOptions

    Members
    -------
    start : Out(1)
        Begin a job; one cycle. All other members are stable from the cycle before it to the end of the job.
    infer : Out(1)
        Infer, past the cache; else tune.
    raw : Out(1)
        Records are in Q8.16; else in NF4.
    samples, order, cache : Out, `address` bits
        Byte addresses of the samples, the order list and the cache.
    cache_entries, samples_per_epoch, epochs : Out(32)
        The settings of these names.
    batch : Out(range(batch + 1))
        Samples of a batch; the last one of an epoch has what is left.
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
    """A batch of the order list, as the sample scheduler gives it to the batch scheduler.

    Parameters
    ----------
    batch : int
        Most samples of a batch.
    options : JobOptions

    Members
    -------
    valid : Out(1)
        A batch was looked through: its new samples are on their way to the cache. Held until `ready`.
    ready : In(1)
        The batch is taken, with `count`, `goal` and `options`.
    count : Out(range(batch + 1))
        Its samples.
    goal : Out(COUNTED)
        New samples of this job and all jobs before, up to this batch's last one, modulo 1024: the batch is complete
        once as many have been recorded.
    options : Out, `BatchOptions`
    number : In(range(batch + 1))
        Which entry of the batch that was taken last to show.
    entry : Out(ENTRY)
        The entry with this number, a cycle later.
    side : Out(1)
        Which of the two halves of the order memory that batch has.
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
    """A sample without a record, as the sample scheduler announces it.

    Parameters
    ----------
    address : int
        Bits of a byte address.

    Members
    -------
    start : Out(1)
        A sample's read command was accepted, and its beats are to be taken; one cycle, only while `ready`.
    record : Out, `address` bits
        Byte address of its record, valid with `start`.
    near : In(1)
        There is a buffer for it, and soon all beats of the sample before have arrived: it may be read.
    ready : In(1)
        There is a buffer for it, and the sample before has arrived; two cycles after `start` at the latest 0 again.
    """

    def __init__(self, address: int) -> None:
        super().__init__({"start": Out(1), "record": Out(address), "near": In(1), "ready": In(1)})


class BatchLoad(wiring.Signature):
    """The unpacking of a batch, as the batch scheduler starts it.

    Parameters
    ----------
    batch : int
        Most samples of a batch.

    Members
    -------
    start : Out(1)
        Begin with a batch; one cycle.
    raw : Out(1)
        Its records are in Q8.16; stable during the job.
    count : Out(range(batch + 1))
        Its samples.
    half : Out(1)
        The half of the batch memory to fill. `count` and `half` are stable while `busy`.
    busy : In(1)
        From the cycle after `start` until the last word has been written.
    """

    def __init__(self, batch: int) -> None:
        super().__init__(
            {"start": Out(1), "raw": Out(1), "count": Out(range(batch + 1)), "half": Out(1), "busy": In(1)}
        )


class LoadedBatch(wiring.Signature):
    """A batch in the batch memory, as the batch scheduler announces it.

    Parameters
    ----------
    batch : int
        Most samples of a batch.
    options : JobOptions

    Members
    -------
    valid : Out(1)
        A batch is loaded; one cycle.
    half : Out(1)
        The half of the batch memory that has it.
    count : Out(range(batch + 1))
        Its samples.
    options : Out, `BatchOptions`
    """

    def __init__(self, batch: int, options: JobOptions = PLAIN) -> None:
        members = {"valid": Out(1), "half": Out(1), "count": Out(range(batch + 1))}
        super().__init__(members | {"options": Out(BatchOptions(options))})


class LabelWrite(wiring.Signature):
    """A write of a label.

    Parameters
    ----------
    batch : int
        Most samples of a batch.

    Members
    -------
    enable : Out(1)
        Write in this cycle.
    address : Out(range(2 * batch))
        The sample's number in its batch; plus `batch` in the second half.
    label : Out(8)
        Its class.
    """

    def __init__(self, batch: int) -> None:
        super().__init__({"enable": Out(1), "address": Out(range(2 * batch)), "label": Out(8)})


class BatchRun(wiring.Signature):
    """A batch in the batch memory, as it is given to the engine.

    Parameters
    ----------
    batch : int
        Most samples of a batch.

    Attributes
    ----------
    start : Out, 1
        Compute the batch; only while none is computed.
    half : Out, 1
        Its half of the batch memory.
    count : Out, range(batch + 1)
        Its samples, 1 or more.
    learn : Out, 1
        Update the adapters; else stop at the logits.
    rate : Out, `RATE` bits
        Learning rate of a sample, 20 fraction bits.
    labels_done : In, 1
        Its labels are not needed any more, for one cycle; with `done` or before.
    done : In, 1
        The batch is computed, for one cycle; `start` may come in the cycle after. All others stay the same until then.
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
