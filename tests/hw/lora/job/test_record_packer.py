"""Record packer: beats of a record from the output memory, and their time when all values are ready."""

import numpy as np
import pytest

from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.lora.forward_cache import ForwardCache, WordCodec, record_layout
from fabtune.golden.lora.memory_layout import cache_image
from fabtune.golden.nf4.nf4_quant import Nf4QuantSpec
from fabtune.hw.lora.job.record_packer import RecordPacker

from ....small_cores import single_axis
from ...play import play_interface
from ...simulation import beats_of

MAPPING = InstantftSpec(columns=8).mapping
"""Mapping of LeNet-5."""
VALUES = sum(count * length for count, length in MAPPING.blocks)
PAIRS = {"network": "1x7x11 conv5k2 relu conv3k2 relu conv18k3 relu flatten fc21 relu fc3", "columns": 16}
"""Pixels in pairs, five columns apart; maps with even and odd value counts, in two groups; vectors of both."""
VARIATIONS = {
    "base": {},
    "narrow": {"lanes": 16, "columns": 2, "rank": 2},
    "wide": {"columns": 8},
    "two outputs at once": {
        "network": "1x6x8 conv3k3p1 relu conv2k3 relu conv6k2 relu flatten fc5 relu fc3",
        "columns": 8,
    },
    "vector": {"network": "70 fc40 relu fc9 relu fc4", "byte_inputs": False},
    "two values at once": PAIRS,
    "two values at once on few lanes": PAIRS | {"lanes": 16},
}


def contents_of(mapping, record):
    """Output memory with a record's values, (depth, columns)."""
    contents, first = np.zeros((mapping.forward.output_depth, mapping.columns), np.int64), 0
    for stage in mapping.forward.stages:
        beside = 2 if stage.spread else 1
        size = stage.channels * stage.cells * beside
        outputs = record[first : first + size].reshape(stage.channels, stage.cells, beside)
        for channel, cells in enumerate(outputs):
            group, column = divmod(channel, mapping.columns)
            begin = stage.output + group * stage.cells
            for pixel, own in enumerate(cells.T):
                contents[begin : begin + stage.cells, column + pixel * stage.spread] = own
        first += size
    return contents


def pack(settings, raw, count=2, stall=0.0):
    """Beats of records from the packer, and from golden's cache."""
    spec = InstantftSpec(**({"network": "1x6x7 conv3k3p1 relu pool2 conv6k2 relu flatten fc5 relu fc3"} | settings))
    mapping, network, rng = spec.mapping, spec.described, np.random.default_rng(7)
    codec = WordCodec(network) if raw else record_layout(network)
    values = rng.integers(-(1 << 21), 1 << 21, (count, codec.values))
    cache = ForwardCache(network, codec, count)
    cache.records[:] = codec.quantise(values)
    expected = beats_of(cache_image(mapping, cache))
    contents = contents_of(mapping, values[0])

    def outputs(port):
        # an idle packer may read an address above the last; a second value is not always used
        names = ("", "second_") if mapping.packed_at_once == 2 else ("",)
        places = [(min(port[f"{name}address"], len(contents) - 1), port[f"{name}column"]) for name in names]
        if len(places) == 2:
            banks = [column ^ (row & 1) for row, column in places]
            assert banks[0] != banks[1] or places[1][0] != port["second_address"]
        values = {f"{name}value": contents[place] for name, place in zip(names, places, strict=True)}
        return values if port["enable"] else None

    async def body(bench):
        """Fill the stages in sequence, for each record."""
        nonlocal contents
        for record in values:
            while bench.get("outputs.full"):
                await bench.tick()
            contents = contents_of(mapping, record)
            for stage in range(len(mapping.forward.stages)):
                bench.set({"outputs.filled": 1 << stage})
                await bench.tick()
            bench.set({"outputs.filled": 0})
            await bench.tick()

    seen = play_interface(
        RecordPacker(mapping),
        take={"o": len(expected)},
        watch={"done": None},
        answer={"outputs": outputs},
        body=body,
        wires={"raw": raw},
        stall=stall,
    )
    assert seen.words("done") == [1] * count
    return seen.words("o"), expected


@pytest.mark.parametrize(("name", "raw"), single_axis(VARIATIONS, [0, 1]))
def test_records_are_those_of_the_cache(name, raw):
    found, expected = pack(VARIATIONS[name], raw)
    assert found == expected


@pytest.mark.parametrize("raw", [0, 1])
def test_a_stalled_writer_changes_no_beat(raw):
    found, expected = pack({}, raw, stall=0.6)
    assert found == expected


def test_two_values_at_once_where_the_array_is_faster():
    assert InstantftSpec(columns=16).mapping.packed_at_once == 2
    found = {name: InstantftSpec(**preset).mapping.packed_at_once for name, preset in InstantftSpec.presets.items()}
    assert found == dict.fromkeys(found, 1) | {"wide": 2}
    mapping = InstantftSpec(**PAIRS).mapping
    assert [stage.spread for stage in mapping.forward.stages] == [5, 0, 0, 0, 0]
    assert mapping.packed_at_once == 2


def period(raw, mapping=MAPPING):
    """Cycles between the last beats of consecutive records."""
    wires = {"raw": raw, "outputs.filled": (1 << len(MAPPING.forward.stages)) - 1}
    seen = play_interface(
        RecordPacker(mapping),
        take={"o": None},
        watch={"done": None},
        wires=wires,
        body=lambda bench: bench.tick(4 * VALUES),
    )
    first, second, third, *_ = seen.cycles("done")
    assert third - second == second - first
    return third - second


def test_a_record_in_nf4_takes_the_time_of_its_blocks_and_a_cycle_a_stage():
    blocks = [length for count, length in MAPPING.blocks for _ in range(count)]
    spec = Nf4QuantSpec()
    quantiser = spec.cycles(4 * blocks) - spec.cycles(3 * blocks)
    assert quantiser < 1.01 * VALUES
    assert period(raw=0) == quantiser + len(MAPPING.forward.stages)


def test_a_raw_record_takes_little_more_cycles_than_values():
    assert VALUES <= period(raw=1) < 1.01 * VALUES


@pytest.mark.slow
def test_two_values_at_once_take_little_more_than_half_the_cycles():
    wide = InstantftSpec(columns=16).mapping
    blocks = [length for count, length in wide.blocks for _ in range(count)]
    spec = Nf4QuantSpec(values=2)
    # blocks of 25 values are bound by the threshold computation
    assert period(raw=0, mapping=wide) == spec.cycles(4 * blocks) - spec.cycles(3 * blocks) == 962 + 3
    assert VALUES // 2 <= period(raw=1, mapping=wide) < 1.1 * VALUES / 2
