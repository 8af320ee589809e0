"""Parameter transfer: each beat of an image to its memory, and the adapters' image back."""

import numpy as np
import pytest

from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.hw.lora.engine_interfaces import AdapterRead, ParameterKind
from fabtune.hw.lora.job.parameter_transfer import ParameterTransfer

from ...memory import Memory
from ...play import play_interface

MAPPING = InstantftSpec(network="1x6x7 conv3k3p1 relu pool2 conv6k2 relu flatten fc5 relu fc3").mapping
FORWARD = MAPPING.forward
IMAGES = {
    "load_frozen": (FORWARD.weight_words * FORWARD.word_beats, FORWARD.frozen_beats, ("WEIGHT", "BIAS")),
    "load_adapters": (MAPPING.adapter_rows * FORWARD.word_beats, MAPPING.adapter_beats, ("A", "B")),
}


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_beats_go_to_their_memories(stall):
    dut, store, rng = ParameterTransfer(MAPPING), Memory(stall), np.random.default_rng(3)

    async def body(bench):
        for name, (border, beats, kinds) in [*IMAGES.items(), *reversed(IMAGES.items())]:
            store.load(0x4000, rng.integers(0, 256, 16 * beats, np.uint8))
            await bench.pulse(name, address=0x4000)
            await bench.until("done")
            await bench.tick()
            assert store.reads[-1] == (0x4000, beats)
            assert bench.seen.fresh("parameters.kind") == [
                (ParameterKind[kinds[at >= border]], at - border * (at >= border), store.beats[0x4000 + 16 * at])
                for at in range(beats)
            ]

    store_reader = store.reader(dut.read.command, dut.read.beats)
    play_interface(dut, watch={"parameters.kind": ("kind", "address", "beat")}, body=body, background=[store_reader])


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_adapters_are_saved(stall):
    dut, store = ParameterTransfer(MAPPING), Memory(stall)
    beats = [int(beat) * 0x10001 + 7 for beat in range(MAPPING.adapter_beats)]
    addresses = [0] * AdapterRead.LATENCY

    def engine(port):
        """Return a beat with the latency of the engine's memory."""
        addresses.append(port["address"])
        return {"beat": beats[min(addresses[-AdapterRead.LATENCY], len(beats) - 1)]}

    async def body(bench):
        for _ in range(2):
            await bench.pulse("save_adapters", address=0x6000)
            begun = bench.cycle
            await bench.until("done")
            assert stall or bench.cycle - begun == (AdapterRead.LATENCY + 1) * len(beats) + 2
            assert store.writes[-1] == (0x6000, len(beats))
            assert [store.beats[0x6000 + 16 * at] for at in range(len(beats))] == beats
            store.beats.clear()

    play_interface(dut, answer={"adapters": engine}, body=body, background=[store.writer(dut.write)])
