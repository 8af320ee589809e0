"""Bench plans: what the bench does inside the simulator, as integers and wire names."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ...golden.block import Spec, Words
from ...hw.verilog import Emitted
from ..phase import HOST, Phase


def bench_plan(spec: Spec, emitted: Emitted, phases: list[Phase], seed: int, compared: bool = False) -> dict[str, Any]:
    """Plan of a block's phases, for `simulator.simulate`; `seed` determines the stalls.

    With `compared` the bench itself compares all words and stops at the first mismatch. Words of the first phase are
    always compared where a reset in the phase would discard the results.
    """
    streams = spec.streams()
    return {
        "seed": seed,
        "clock": emitted.clock,
        "reset": emitted.reset,
        "reset_level": emitted.reset_level,
        "reset_cycles": spec.reset_cycles,
        "buses": spec.buses,
        "compared": compared,
        "input_wires": spec.input_wires,
        "host": HOST,
        "streams": {
            name: {
                "direction": stream.direction,
                "follows": stream.follows,
                "valid": emitted.ports[name].valid,
                "ready": emitted.ports[name].ready,
                "wires": [wire.name for wire in emitted.ports[name].wires],
            }
            for name, stream in streams.items()
        },
        "phases": [
            {
                "reset": phase.reset,
                "cycles": phase.cycles,
                "quiet": phase.quiet,
                "inputs": {name: _wire_words(spec, emitted, name, words) for name, words in phase.inputs.items()},
                "expected": {
                    name: _wire_words(spec, emitted, name, words)
                    for name, words in phase.expected.items()
                    if compared or not number
                },
                "outputs": {name: count for name, count in counts.items() if name in streams},
                "memory": {address: data.astype(np.uint8).tobytes().hex() for address, data in phase.memory.items()},
                "kept": {name: (address, counts[name]) for name, address in phase.kept.items()},
                "responses": list(phase.responses),
                "script": [dataclasses.asdict(step) for step in phase.script],
                "midway": phase.midway,
            }
            for number, phase in enumerate(phases)
            for counts in [{name: len(next(iter(words.values()))) for name, words in phase.expected.items()}]
        ],
    }


def _wire_words(spec: Spec, emitted: Emitted, name: str, words: Words) -> list[list[int]]:
    """Words as integers: for a stream one integer per wire, otherwise one per field."""
    streams = spec.streams()
    if name in streams:
        wires = emitted.ports[name].wires
        columns = [streams[name].pack(words, wire.fields, wire.align) for wire in wires]
    else:
        columns = [column[:, 0].tolist() for column in words.values()]
    return [list(word) for word in zip(*columns, strict=True)]
