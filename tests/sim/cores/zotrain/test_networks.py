"""Random zeroth-order jobs on networks of short and long stages, with every cut, bit for bit; minutes."""

import numpy as np
import pytest

from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.nn.arithmetic.random_parameters import random_parameters
from fabtune.golden.zo.memory_layout import StepOrder
from fabtune.golden.zo.split import Split
from fabtune.golden.zo.step_settings import StepSettings
from fabtune.sim.compiled.comparison import compare
from fabtune.sim.cores.zeroth_order_job import TrainingJob

CASES = {
    "stages of a word": ("16 fc16 relu fc16 relu fc16 relu fc4", 16, 2, "block"),
    "stages of a word, wide": ("16 fc16 relu fc16 relu fc16 relu fc4", 16, 8, "ultra"),
    "convolutions": ("1x10x10 conv5k3p1 relu pool2 conv7k3 relu flatten fc20 relu fc9", 32, 8, "ultra"),
    "a pool behind the second": ("2x8x8 conv8k3 relu conv3k1 relu pool2 flatten fc40 relu fc12", 16, 4, "ultra"),
    "cycles of a word": ("20 fc70 relu fc3", 16, 8, "ultra"),
    "two stages": ("3x6x6 conv4k3p1 relu flatten fc6", 32, 2, "block"),
    "maps of one dimension": (
        "6x1x32 conv8k1x5p0,0,2,2s1x2 relu pool1x2 dw1x3p0,0,1,1 relu avg1x8 flatten fc4",
        *(16, 4, "ultra"),
    ),
    "five stages": ("33 fc33 relu fc30 relu fc40 relu fc20 relu fc7", 32, 4, "ultra"),
}
SAMPLES = 7


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_cut_of_a_network(name):
    text, lanes, columns, deltas = CASES[name]
    rng = np.random.default_rng(list(CASES).index(name))
    spec = ZotrainSpec(network=text, lanes=lanes, columns=columns, deltas=deltas, cut_rows=2048)
    network = spec.described
    splits = [Split(first=int(rng.integers(1, 4)))]
    for cut in range(1, len(spec.mapping.forward.stages)):
        splits.append(Split(cut, *map(int, rng.integers(1, 4, 2))))
    for split in splits:
        inputs = rng.integers(0, 256, (SAMPLES, *network.input_shape))
        frozen, labels = random_parameters(network, rng), rng.integers(0, network.classes, SAMPLES)
        steps = []
        for batch in (1, 5, 2, SAMPLES):
            indices = rng.integers(0, SAMPLES, batch)
            steps.append(StepOrder(indices, labels[indices], rate=int(rng.integers(1, 60_000))))
        settings = StepSettings(
            shift=int(rng.integers(18, 26)),
            eps_shift=int(rng.integers(4, 13)),
            split=split,
            scalars=bool(rng.integers(2)),
        )
        job = TrainingJob(frozen, inputs, steps, settings)
        _, comparison = compare(spec, job, inputs[:3], seed=int(rng.integers(100)))
        assert comparison.mismatches == 0, split
