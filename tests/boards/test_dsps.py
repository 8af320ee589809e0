"""DSP counts of cores: spec, RTL products and estimate agree."""

import re

import pytest

from fabtune.boards.estimate.estimate import estimate_spec
from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.nn.arithmetic.multipliers import MAX_SMALL_PRODUCT, takes_dsp
from fabtune.hw.verilog import emit

from ..small_cores import ADAPTERS, ONE_STAGE, zostream

AUTOENCODER = {"network": "20 fc6 relu fc20", "lanes": 16, "columns": 2, "loss": "mse"}
POOLED = "2x11x11 conv4k3 leaky0.1 avg3 flatten fc6 hswish fc6 leaky0.25 fc3"
SPECS = {
    "instantft": InstantftSpec(**ADAPTERS),
    "zotrain": ZotrainSpec(**ONE_STAGE),
    "zostream": zostream(ports=2),
    "instantft, mse": InstantftSpec(**AUTOENCODER, rank=2, batch=4, cache_entries=64),
    "zotrain, mse": ZotrainSpec(**AUTOENCODER, byte_inputs=False),
    "zotrain, pooled": ZotrainSpec(network=POOLED, lanes=16, columns=2, deltas="ultra"),
    "instantft, paired": InstantftSpec(
        network=POOLED, lanes=16, rank=2, batch=4, cache_entries=64, early_stop=True, validation=True, stochastic=True
    ),
}


def products(rtlil):
    """DSPs of all products too wide for the fabric, 27 x 18 bits each."""
    count = 0
    for cell in re.findall(r"  cell \$mul (?:.*\n)*?  end\n", rtlil):
        widths = dict(re.findall(r"parameter (?:signed )?\\(\w+) (\S+)", cell))
        narrow, wide = sorted((int(widths["A_WIDTH"]), int(widths["B_WIDTH"])))
        if constant := re.search(r"connect \\B \d+'([01]+)\n", cell):
            count += takes_dsp(int(widths["A_WIDTH"]), int(constant[1], 2))
        elif narrow + wide > MAX_SMALL_PRODUCT:
            count += -(-narrow // 18) * -(-wide // 27)
    return count


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("instantft", "zotrain", "zostream") else pytest.param(name, marks=pytest.mark.slow)
        for name in SPECS
    ],
)
def test_the_dsps_of_a_spec_are_the_products_of_its_rtl(name):
    assert SPECS[name].dsps == products(emit(SPECS[name]).rtlil)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
def test_the_dsps_of_a_spec_are_those_of_its_estimate(name):
    assert SPECS[name].dsps == estimate_spec(SPECS[name]).resources["dsp"]
