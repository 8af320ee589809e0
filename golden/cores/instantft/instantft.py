"""`instantft`: fine-tuning jobs in the fabric, with the integers of `golden.lora.job.Job`."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from ...axi.bus import BEAT, BEAT_COUNT_BITS
from ...axi.memories import cache_memory, port_memories
from ...errors import UserError
from ...lora.mapping import AdapterMapping
from ...lora.memories import backward_memories, mark_memory, order_memory, record_memories
from ...lora.memory_layout import JobLayout
from ...lora.update_noise import UpdateNoise
from ...memories.plan import MemoryShape
from ...nn.arithmetic.loss import Loss
from ...nn.array.mapping import Mapping
from ...nn.array.memories import network_memories
from ..adapters.spec import AdapterCoreSpec
from ..core import core_buses
from ..network_core import NetworkCoreSpec
from ..shell import CoreRegisters
from .registers import CORE, STOPPING_CORE, VALIDATING_CORE


@dataclass(frozen=True, kw_only=True)
class InstantftSpec(AdapterCoreSpec, NetworkCoreSpec):
    """Parameters of `instantft`.

    Parameters
    ----------
    network : str
        Name of a preset, or a description such as ``1x8x8 conv8k3p1 relu pool2 flatten fc32 relu fc10``. Refused:
        invalid networks; more than 256 classes, as a label has eight bits.
    rank : int
        Rank of the adapters. Refused: above `columns`; above 8, because a class's part of B is a single beat.
    last_only : bool
        A single adapter, parallel to the last layer; otherwise an adapter from each stage's input to the outputs.
        Refused: true with `loss` = `mse`, unless that layer reads the sample.
    tunes : str
        ``adapters``; ``layer``, weights and biases of the last layer; or ``biases``, its biases only. In the last two
        cases the rank is the number of classes whose weights the array takes at once. Refused: the last two with
        `last_only`, or with `loss` = `mse` unless the last layer reads the sample.
    byte_inputs : bool
        Samples are bytes that stand for 0 to 1; otherwise Q8.16 in four bytes.
    lanes : int
        Size of the array of multipliers: values a cycle. Refused: other than 16 or 32.
    columns : int
        Size of the array of multipliers: outputs for each value. Refused: no power of two, outside 2 to 16.
    stochastic : bool
        Updates are rounded with random numbers, which restart with each load of adapters; otherwise to nearest.
    rates : bool
        The sample schedule may have a learning rate for each batch.
    early_stop : bool
        The core sums the loss of each epoch; a tuning may end at a small loss.
    validation : bool
        With `early_stop`: validation samples may follow each epoch, and their loss decides the end. Refused: true
        without `early_stop`.
    batch : int
        Maximum number of samples in a batch, 2 to 256.
    cache_entries : int
        Maximum number of samples in the cache, 1 to 2**20; without a cache, in a tuning.
    ports : int
        AXI4 ports to the external memory, 1 to 3: samples and records of batches are read through all of them. Refused:
        other than 1 to 3.
    cache : str
        Place of the forward cache: ``dram``; ``chip``, in URAM, for NF4 records only and emptied by an inference; or
        ``none``: each sample of each batch runs through the frozen network. Refused: `chip` with 2 ports or 3.
    loss : str
        Loss of a batch: the cross entropy of labels, or `mse`, half the squared error of an autoencoder, whose targets
        are the samples themselves. Refused: with `mse` other outputs than inputs, more than 16,384.

    Raises
    ------
    UserError
        For a value out of range, unnecessary ports, or parameters that do not fit on the chip.
    """

    name: ClassVar[str] = "instantft"
    summary: ClassVar[str] = "a network with adapters that fine-tunes itself, behind AXI"
    monitored: ClassVar[tuple[str, ...]] = (*NetworkCoreSpec.monitored, "busy")
    turns: ClassVar[tuple[str, ...]] = ("words", "pauses", "forward", "head", "backward", "update")
    beside: ClassVar[tuple[str, ...]] = ("gradients", "record", "sample", "load", "unpack")

    presets: ClassVar[dict[str, dict[str, object]]] = {
        "tiny": {"lanes": 16, "columns": 4},
        "small": {"columns": 4},
        "fast": {"columns": 8, "ports": 2},
        "chip": {"columns": 8, "cache": "chip", "cache_entries": 1024},
        "wide": {"columns": 16, "ports": 3},
    }

    network: str = "lenet5-mnist"
    rank: int = 4
    last_only: bool = False
    tunes: Literal["adapters", "layer", "biases"] = "adapters"
    byte_inputs: bool = True
    lanes: int = 32
    columns: int = 4
    stochastic: bool = False
    rates: bool = False
    early_stop: bool = False
    validation: bool = False
    batch: int = 20
    cache_entries: int = 16384
    ports: int = 1
    cache: Literal["dram", "chip", "none"] = "dram"
    loss: Loss = "cross_entropy"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ports not in (1, 2, 3):
            raise UserError(f"ports = {self.ports}: give 1 to 3")
        if self.last_only and self.tunes != "adapters":
            raise UserError(f"last_only with tunes = {self.tunes}: there are no adapters to place")
        if self.early_stop and self.loss == "mse":
            raise UserError("early_stop with loss = mse: what ends a job is the cross entropy of labels")
        if self.cache == "chip" and self.ports > 1:
            raise UserError(f"ports = {self.ports}: with the cache on the chip one is enough; give ports = 1")
        mapping = self.mapping
        most = (1 << BEAT_COUNT_BITS) - 1
        if max(mapping.forward.frozen_beats, mapping.adapter_beats) > most:
            raise UserError(f"{self.network} has parameters of more than a megabyte: they do not fit on the chip")
        for what, beats in (("a sample", mapping.forward.sample_beats), ("a record in Q8.16", mapping.raw_beats)):
            if beats > most:
                raise UserError(f"{what} of {self.network} takes {beats} beats of {BEAT} bytes: at most {most}")

    @cached_property
    def mapping(self) -> AdapterMapping:
        """Mapping of network and adapters on the array."""
        network = self.described
        first = len(network.stages) - 1 if self.last_only else 0
        return AdapterMapping.of(
            network, first, self.rank, self.lanes, self.columns, self.byte_inputs, self.tunes, self.loss
        )

    @property
    def sizes(self) -> AdapterMapping:
        return self.mapping

    def tuned(self, parameters: int) -> str:
        parts = {"adapters": "low-rank adapters", "layer": "the last layer", "biases": "the last layer's biases"}
        return f"{self.mapping.shape.updated:,} parameters of {parts[self.tunes]}, with gradients"

    @cached_property
    def noise(self) -> UpdateNoise | None:
        """Random numbers of stochastic rounding, or None."""
        return UpdateNoise.by_image(self.mapping) if self.stochastic else None

    @property
    def registers(self) -> CoreRegisters:  # type: ignore[override]
        return VALIDATING_CORE if self.validation else STOPPING_CORE if self.early_stop else CORE

    @property
    def buses(self) -> dict[str, str]:  # type: ignore[override]
        return core_buses(self.ports)

    @property
    def layout(self) -> JobLayout:
        return JobLayout(self.mapping, self.batch, self.cache)

    @property
    def image_beats(self) -> MappingOf[str, int | str]:
        return {"parameters": self.forward.frozen_beats, "adapters": self.mapping.adapter_beats}

    @cached_property
    def labels(self) -> int:
        return self.mapping.labels

    @property
    def forward(self) -> Mapping:
        return self.mapping.forward

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        mapping = self.mapping
        return (
            *network_memories(self.forward),
            *backward_memories(mapping, self.batch),
            *record_memories(mapping),
            order_memory(self.batch, self.rates),
            mark_memory(self.cached_samples),
            *([cache_memory(self.cache_ram_beats)] if self.cache_ram_beats else []),
            *port_memories(self.reader, self.writer, self.ports, writing=1),
        )

    @property
    def dsps(self) -> int:
        """DSP slices of array, adapters, losses and records; see `golden.lora`."""
        mapping = self.mapping
        head = 3 * mapping.ranks + (self.loss == "cross_entropy")
        records = mapping.lanes + 2  # dequantise a word, and find the thresholds of a block
        return self.forward.dsps + 8 * mapping.words_per_cycle + head + records + 2  # two address generators

    def smaller(self) -> MappingOf[str, Sequence[MappingOf[str, Any]]]:
        """Settings that need less memory: smaller batches, a smaller cache, one adapter, a smaller array."""
        entries = [self.cache_entries >> times for times in range(1, self.cache_entries.bit_length() - 4)]
        cache = [{"cache_entries": count} for count in entries]
        return {
            "batch": [
                {"batch": batch}
                for batch in (192, 128, 96, 64, 48, 32, 24, 16, 12, 10, 8, 6, 4, 3, 2)
                if batch < self.batch
            ],
            "cache": [*cache, {"cache": "dram"}] if self.cache == "chip" else [],
            "last_only": [] if self.last_only or self.tunes != "adapters" else [{"last_only": True}],
            **self.smaller_arrays(),
        }
