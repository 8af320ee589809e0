"""Beat packer: full beats, a shorter last beat, several samples."""

import numpy as np
import pytest

from fabtune.golden.fixed import Q8_16
from fabtune.golden.models.layers import Linear
from fabtune.golden.models.stages import stages_of
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.hw.nn.layer_block import BeatPacker

from ..play import play_interface


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("inputs", [1, 2, 3, 4, 5, 11, 12])
def test_samples_become_beats(inputs, stall):
    mapping = Mapping("packed", stages_of("packed", (inputs,), (Linear(3),)))
    samples = np.random.default_rng(inputs).integers(Q8_16.minimum, Q8_16.maximum, (3, inputs), endpoint=True)
    beats = []

    async def body(bench):
        for _ in samples:
            for _ in range(3):  # nothing is taken before the start
                assert not bench.get("i.ready")
                await bench.tick()
            await bench.pulse("start")
            beats.extend(await bench.take("o", -(-inputs // 4)))

    play_interface(BeatPacker(mapping), give={"i": samples.reshape(-1).tolist()}, body=body, stall=stall)
    each = np.array([[beat >> 32 * at & 0xFFFFFFFF for at in range(4)] for beat in beats])
    mask = (1 << Q8_16.width) - 1
    found = each.reshape(len(samples), -1)[:, :inputs] & mask
    assert found.tolist() == (samples & mask).tolist()
