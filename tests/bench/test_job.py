"""Speed of the integer job: 10 x 1,024 samples on LeNet-5 in 1.5 s on one core; Skip2-LoRA's share of LoRA-All.

Run with `make bench`; times vary with the machine, so the timed suite leaves this out.
"""

import numpy as np
import torch

from fabtune.golden.datasets.dataset import Samples
from fabtune.golden.models.module import module_of
from fabtune.golden.models.text import preset
from fabtune.golden.train.adapters.tune import AdapterSettings, engine_of
from fabtune.golden.train.batches import batches
from fabtune.scripts.tables import table_of
from fabtune.scripts.tables.options import Options

SAMPLES = 1024


def test_ten_epochs_in_integers(benchmark):
    torch.manual_seed(0)
    network, rng = preset("lenet5-mnist"), np.random.default_rng(0)
    samples = Samples(rng.integers(0, 256, (SAMPLES, 1, 28, 28)).astype(np.uint8), rng.integers(0, 10, SAMPLES))
    module = module_of(network).eval()

    def job():
        engine = engine_of(network, module, AdapterSettings(engine="golden"), SAMPLES)
        for _ in range(10):
            for indices in batches(SAMPLES, 20, rng):
                engine.batch(samples[indices], indices)

    benchmark.pedantic(job, rounds=5, iterations=1)
    assert benchmark.stats.stats.min <= 1.5


def test_skip2_lora_takes_at_most_15_percent_of_lora_all():
    rows = table_of("skip2-6")(Options())["rows"]
    assert all(row["% of LoRA-All here"] <= 15 for row in rows if row["method"] == "Skip2-LoRA")
