"""Target memory: byte and Q8.16 samples, for one side or both, with input gaps and output stalls."""

import numpy as np
import pytest

from fabtune.golden.fixed import q8_16_of_bytes
from fabtune.golden.models.text import network_from
from fabtune.golden.nn.array.images import samples_image
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.hw.cores.zotrain.target_memory import TargetMemory

from ...play import play_interface
from ...simulation import beats_of

CASES = {
    "bytes": ("21 fc21", {}),
    "one beat": ("5 fc5", {}),
    "whole beats": ("32 fc32", {}),
    "Q8.16": ("9 fc9", {"byte_inputs": False}),
    "one side": ("21 fc21", {"sides": 1}),
}


@pytest.mark.parametrize("stall", [0.0, 0.6])
@pytest.mark.parametrize("name", CASES)
def test_samples_come_once_for_each_side(name, stall):
    text, options = CASES[name]
    mapping = Mapping.of(network_from(text), 16, 2, **{"sides": 2, **options})
    rng, count, kept = np.random.default_rng(1), 7, []
    shape = (count, *mapping.input_shape)
    inputs = rng.integers(0, 256, shape) if mapping.byte_inputs else rng.integers(-(1 << 23), 1 << 23, shape)
    values = q8_16_of_bytes(inputs) if mapping.byte_inputs else inputs
    expected = np.repeat(values.reshape(count, -1), mapping.sides, axis=0).reshape(-1).tolist()

    async def body(bench):
        for number, image in enumerate(np.split(samples_image(mapping, inputs).reshape(-1), count)):
            while not bench.get("room") or bench.rng.random() < stall:
                await bench.tick()
            kept.append(number + 1 - len(bench.seen["o"]) // (mapping.sides * mapping.inputs))
            await bench.pulse("start")
            for beat in beats_of(image):
                await bench.gap()
                await bench.pulse("write", beat=beat)

    seen = play_interface(TargetMemory(mapping), take={"o": len(expected)}, body=body, stall=stall)
    assert seen.words("o") == expected
    # the last beat of another sample is being given
    assert max(kept) <= mapping.sample_buffers + 2
