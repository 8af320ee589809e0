"""Every block's RTL against golden: full speed, stalled, filled, resets in the middle; some on both simulators."""

import pytest

from fabtune.golden.registry import BLOCKS, CORES
from fabtune.golden.settings import build
from fabtune.sim.verify import verify

from ..small_cores import SMALLER

# whole cores have separate tests, with smaller networks, in cores/
BASE = [name for name in BLOCKS if name not in CORES]
ON_BOTH = ("urng",)
"""Blocks whose base case runs on both simulators; in the slow tests all blocks. A build by Verilator takes longest."""
LARGE = ("tile", *SMALLER)
"""Blocks with long simulations; outside the slow tests a smaller variation of each runs."""
LONG = (
    *("value_path", "program_sequencer", "axi_read", "axi_write", "word_offsets", "adapter", "conv", "depthwise"),
    *("layer_norm", "norm_path", "tile_array", "tile_weights", "array_path", "pool_head", "rotary"),
    *("attention_softmax", "fc"),
)
"""Blocks whose smaller variation also takes seconds; outside the slow tests tests/hw compares them with golden."""
PRESETS = ["pezo:pool"]
SLOW_PRESETS = ["pool:exact", "pezo:otf14", "tile:pool"]
VARIATIONS = [
    ("urng", "n=15"),
    ("urng", "bits=14"),
    ("urng", "leap=4"),
    ("urng", "n=1 allow_power_of_two=true"),
    ("scale", "mode=pow2"),
    ("scale", "mode=constant"),
    ("scale", "fraction=6"),
    ("pool", "p=1 size=255"),
    ("perturb", "lanes=7 numbers=3 overflow=wrap"),
    ("perturb", "lanes=4 numbers=4 number=Q1.7 odd=true scale=U2.2"),
    ("perturb", "rounding=truncate"),
    ("perturb", "eps_shift=14 tag=5"),
    ("grng", "form=select"),
    ("pezo", "replay=false"),
    ("nf4_quant", "length=1"),
    ("nf4_quant", "length=25 values=2"),
    ("sparse_add", "lanes=64"),
    ("sparse_add", "lanes=8 queue=64"),
    # packets longer than the range of an index
    ("sparse_add", "lanes=8 index_bits=5"),
    ("softmax", "classes=2"),
    ("loss_difference", "classes=2"),
    ("mse_difference", "outputs=1"),
    ("mac", "mode=within lanes=2 columns=3 batch=1"),
    *((name, settings) for name, settings in SMALLER.items() if name not in LONG),
]
SLOW_VARIATIONS = [
    ("urng", "n=16 allow_power_of_two=true"),
    *((name, SMALLER[name]) for name in LONG),
    ("weight_path", "lanes=16 numbers=31 number=Q1.7 odd=true scale=U2.2"),
    # words of two pixels, the larger sum counts
    ("conv", "channels=1 height=6 width=7 kernel=3 padding=1 outputs=2 pool=3,2 activation=relu3 columns=4 lanes=16"),
    # words of two pixels, of two outputs
    ("conv", "channels=2 height=4 width=6 outputs=2 pool=1 columns=4 lanes=16"),
    # a group of biases is two beats
    ("fc", "inputs=37 outputs=21 columns=16 lanes=16"),
    (
        "conv",
        "channels=2 height=9 width=9 kernel=4,3 stride=2,1 padding=0,1,2,0 pool=3,2 pool_stride=1,2 columns=2 lanes=16",
    ),
    # a memory of one word
    ("depthwise", "channels=16 height=3 width=3 kernel=1 padding=0 activation=none columns=2 lanes=16"),
    ("scale", "mode=pow2 n=3"),
    ("urng", "bits=4 n=7"),
    ("perturb", "eps_shift=3"),
    ("perturb", "lanes=8 numbers=8"),
    ("sparse_add", "lanes=8 tag=5"),
    ("pezo", "mode=pow2"),
    ("softmax", "classes=256"),
    ("nf4_quant", "length=25"),
    ("nf4_dequant", "lanes=1 scales=1"),
    ("grng", "form=sum"),
    ("loss_difference", "classes=1"),
    ("layer_norm", "lanes=16 features=1000"),
    ("attention_softmax", "columns=4 lanes=16 queries=8 keys=32"),
    (
        "conv",
        "channels=2 height=9 width=8 outputs=3 activation=leaky0.3 pool=3,2 pool_stride=2,1 pool_padding=1,1,0,1 "
        "columns=2 lanes=16",
    ),
    (
        "conv",
        "channels=2 height=7 width=6 outputs=3 activation=hswish pool=3,2 pool_stride=2,1 pool_padding=1,1,0,1 "
        "columns=2 lanes=16",
    ),
    ("fc", "inputs=37 outputs=6 activation=hswish columns=2 lanes=16"),
    ("conv", "channels=2 height=6 width=8 outputs=3 pool=2,3 pool_kind=average activation=relu6 padding=0 lanes=16"),
    (
        "depthwise",
        "channels=18 height=4 width=4 kernel=3,2 stride=1,2 padding=0,1,2,0 activation=relu6 columns=8 lanes=16",
    ),
    # all sums are rounded at once
    (
        "depthwise",
        "channels=18 height=4 width=4 kernel=3,2 stride=1,2 padding=0,1,2,0 activation=relu6 columns=16 lanes=16",
    ),
    ("conv", "channels=2 height=6 width=6 outputs=19 columns=16 lanes=16"),
    # four words at once; with the logit head of two classes, of labels and of targets
    ("adapter", "inputs=37 classes=3 batch=2 lanes=16 columns=16"),
    ("adapter", "inputs=70,37 classes=9 batch=3 lanes=16 columns=16 rank=3"),
    ("adapter", "inputs=16 classes=16 batch=2 lanes=16 columns=16 rank=2 loss=mse"),
    # more classes than lanes, and the sample as the target
    ("adapter", "inputs=20,7 classes=20 batch=2 lanes=16 columns=2 rank=1 loss=mse"),
    ("urng", "bits=16 n=63"),
    ("gaussian_array", "n=5 form=select"),
    ("tile", "lanes=8 overflow=wrap"),
    ("tile_dequant", "lanes=8 columns=32"),
    ("tile_dequant", "lanes=64 columns=8"),
    ("tile_weights", "lanes=16 columns=4"),
    ("tile_weights", "columns=32"),
    ("tile_weights", "lanes=64 columns=8 numbers=8"),
    ("weight_path", "lanes=16 scales=4"),
    ("weight_path", "lanes=8 overflow=wrap eps_shift=3"),
    ("pool", "p=3 size=1000"),
    ("sparse_add", "lanes=16 queue=4"),
    ("urng", "leap=4 bits=14"),
    ("pezo", "leap=4"),
    ("scale", "bits=10"),
    ("scale", "leap=4"),
    ("pool", "bits=16"),
    ("pezo", "replay=false scale.urng.bits=14"),
    ("perturb", "lanes=2 numbers=31 number=Q1.7 odd=true"),
    ("softmax", "classes=1"),
    ("gaussian_array", "n=16 form=select seed=3"),
    ("loss_difference", "classes=256"),
    ("mse_difference", "outputs=640"),
    ("adapter", "inputs=20,50,33 classes=16 rank=3 columns=8 lanes=16 batch=5"),
    ("mac", "mode=within"),
    ("fc", "inputs=1 outputs=1 lanes=16 columns=8"),
    ("fc", "inputs=70 outputs=10 lanes=16"),
    ("conv", "channels=2 height=6 width=7 outputs=5 kernel=5 padding=0"),
    ("conv", "channels=1 height=5 width=4 outputs=1 kernel=1 padding=0 pool=1"),
    ("conv", "channels=6 height=14 width=14 outputs=16 kernel=5 padding=0"),
    ("depthwise", "channels=1 height=5 width=4 padding=0"),
    ("depthwise", "channels=70 height=4 width=5 kernel=3 stride=2"),
    ("adapter", "inputs=45 rank=5 columns=8 batch=4"),
    ("adapter", "inputs=20,50,33 classes=256 rank=3 columns=8 lanes=16 batch=3"),
    ("adapter", "inputs=100,33 classes=100 columns=8 lanes=16 batch=4 loss=mse"),
    ("tile", "scale.urng.bits=14 lanes=4"),
    ("word_offsets", "generator.scale.urng.bits=4 generator.scale.urng.n=7 tables=2"),
    # rounded numbers, and rows without an iteration
    ("word_offsets", "generator.scale.urng.bits=5 generator.scale.urng.n=3 generator.scale.fraction=6"),
    ("word_offsets", "generator.strategy=pool generator.pool.size=60 generator.pool.p=8"),
    ("weight_path", "lanes=64 numbers=31"),
    ("tile_array", "columns=32 tag=20"),
    ("tile_array", "lanes=4 columns=1"),
    ("partial_sums", "columns=4 sums=16"),
    ("stationary_load", "columns=32"),
    ("pool_head", "columns=32 rows=100 wide_rows=70 sums=1024"),
    ("pool_head", "lanes=16 columns=8 wide_rows=2 sums=4"),
    ("rotary", "lanes=16 columns=8 wide_rows=2 sums=32 width=64"),
    ("rotary", "columns=32 rows=600 sums=64 width=32"),
    ("value_path", "columns=32 features=96"),
    ("value_path", "lanes=16 features=32 sums=4"),
    ("value_path", "columns=8 sums=1024"),
    ("attention_sequencer", "columns=32"),
    ("attention_sequencer", "lanes=8 columns=8 exponentials=2 queries=8 keys=16 rows=512 wide_rows=1024 sums=32"),
    ("attention_sequencer", "lanes=16 columns=2 exponentials=2 queries=4 keys=64 rows=2048 sums=64"),
    ("sample_loader", "lanes=16 columns=4 sums=32"),
    ("sample_loader", "columns=32"),
    ("sample_loader", "lanes=4 columns=1 rows=4 wide_rows=4 sums=4"),
    ("activation_memory", "lanes=16 columns=4 rows=1024 wide_rows=512"),
    ("activation_memory", "columns=32 rows=70 wide_rows=130 row_tag=0"),
    ("stationary_load", "lanes=4 columns=1"),
    ("partial_sums", "columns=12 sums=8"),
    ("partial_sums", "columns=32 sums=64 drain=8"),
]
WORDS = 240
"""Words of each phase in a base case; at full speed, stalled and after a reset each phase has several thousand cycles.
"""
cycles = {}


def spec_of(name):
    block, _, preset = name.partition(":")
    return build(BLOCKS[block], [], preset or None)


def check(spec, simulator, words, name):
    verdict = verify(spec, simulator, words=words)
    assert verdict.failures == ()
    assert verdict.differences == ()
    assert verdict.passed
    cycles[name, simulator] = verdict.cycles


@pytest.mark.parametrize("name", [pytest.param(one, marks=pytest.mark.slow) if one in LARGE else one for one in BASE])
def test_base_case(name, fast_simulator):
    check(spec_of(name), fast_simulator, WORDS, name)


@pytest.mark.parametrize("name", [one if one in ON_BOTH else pytest.param(one, marks=pytest.mark.slow) for one in BASE])
def test_base_case_on_verilator(name):
    check(spec_of(name), "verilator", WORDS, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", BASE)
def test_base_case_for_long(name):
    check(spec_of(name), "verilator", 8 * WORDS, name)


@pytest.mark.parametrize("name", [*PRESETS, *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW_PRESETS)])
def test_preset(name, fast_simulator):
    check(spec_of(name), fast_simulator, WORDS, name)


@pytest.mark.parametrize(
    ("block", "settings"), [*VARIATIONS, *(pytest.param(*one, marks=pytest.mark.slow) for one in SLOW_VARIATIONS)]
)
def test_variation(block, settings, fast_simulator):
    check(build(BLOCKS[block], settings.split()), fast_simulator, WORDS // 2, f"{block} {settings}")


def test_enough_was_compared():
    if len(cycles) < len(BASE) - len(LARGE) + len(ON_BOTH) + len(PRESETS) + len(VARIATIONS):
        pytest.skip("only part of the cases ran")
    assert sum(cycles.values()) >= 200_000
