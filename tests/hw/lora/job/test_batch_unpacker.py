"""Batch unpacker: samples and records, NF4 and raw, into rows of the batch memory."""

import numpy as np
import pytest

from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.fixed import q8_16_of_bytes
from fabtune.golden.lora.forward_cache import ForwardCache, WordCodec, record_layout
from fabtune.golden.lora.memory_layout import cache_image
from fabtune.golden.nn.array.images import samples_image
from fabtune.hw.lora.job.batch_unpacker import BatchUnpacker

from ....small_cores import single_axis
from ...play import play_interface
from ...simulation import beats_of

BASE = {"network": "1x6x7 conv3k3p1 relu pool2 conv6k2 relu flatten fc5 relu fc3", "batch": 4}
VARIATIONS = {
    "base": {},
    "last": {"last_only": True},
    "two words at once": {"rank": 2},
    "four words at once": {"columns": 16},
    "last, four words at once": {"columns": 16, "lanes": 16, "last_only": True},
    "words": {"byte_inputs": False},
    "narrow": {"lanes": 16, "columns": 2, "rank": 2},
    "vector": {"network": "70 fc40 relu fc9 relu fc4", "byte_inputs": False, "rank": 1},
}


class Case:
    """Samples and records of a batch, as beats and as resulting rows."""

    def __init__(self, settings, raw, count, seed=3):
        spec = InstantftSpec(**(BASE | settings))
        self.mapping, self.raw, self.count = spec.mapping, raw, count
        network, mapping, rng = spec.described, spec.mapping, np.random.default_rng(seed)
        shape = (count, *network.input_shape)
        given = rng.integers(0, 256, shape) if spec.byte_inputs else rng.integers(-(1 << 23), 1 << 23, shape)
        self.inputs = (q8_16_of_bytes(given) if spec.byte_inputs else given).reshape(count, -1)
        codec = WordCodec(network) if raw else record_layout(network)
        cache = ForwardCache(network, codec, count)
        cache.records[:] = codec.quantise(rng.integers(-(1 << 21), 1 << 21, (count, codec.values)))
        self.values = codec.dequantise(cache.records)
        self.samples = beats_of(samples_image(mapping.forward, given)) if mapping.first == 0 else []
        skipped = sum(len(words) for words in mapping.record_words[: max(mapping.first - 1, 0)])
        self.records, self.scales, apart = [], [], mapping.loads_apart
        for record in cache_image(mapping, cache):
            own = beats_of(record)
            if raw:
                self.records += own[skipped * mapping.lanes // 4 :]
            else:
                (self.scales if apart else self.records).extend(own[mapping.code_beats :])
                self.records += own[skipped : mapping.code_beats]

    def rows(self):
        """Rows of the batch, (count * sample_rows, words_per_cycle, lanes)."""
        mapping = self.mapping
        words, lanes = mapping.words_per_cycle, mapping.lanes
        tensors = [(self.inputs, mapping.sample_words)] if mapping.first == 0 else []
        begins = np.cumsum([0, *(sum(word.count for word in one) for one in mapping.record_words)])
        for begin, own in zip(begins, mapping.record_words, strict=False):
            if own in mapping.batch_words:
                tensors.append((self.values[:, begin:], own))
        found = []
        for sample in range(self.count):
            for values, own in tensors:
                rows = np.zeros((-(-len(own) // words), words, lanes), np.int64)
                for at, word in enumerate(own):
                    rows[at // words, at % words, : word.count] = values[sample, word.first : word.first + word.count]
                found.append(rows)
        return np.concatenate(found)


def unpack(cases, stall=0.0):
    """Unpack batches into alternating halves; returns the final batch memory."""
    mapping, most = cases[0].mapping, BASE["batch"]
    shape = mapping.words_per_cycle, mapping.lanes
    names = ("samples", "records", "scales") if mapping.loads_apart else ("samples", "records")
    memory = np.full((2 * most * mapping.sample_rows, *shape), 1 << 40, np.int64)

    async def body(bench):
        for at, case in enumerate(cases):
            assert not bench.get("load.busy")
            await bench.pulse("load.start", raw=case.raw, count=case.count, half=at % 2)
            assert bench.get("load.busy")
            await bench.until("load.busy", 0)

    seen = play_interface(
        BatchUnpacker(mapping, most),
        give={name: [beat for case in cases for beat in getattr(case, name)] for name in names},
        watch={"rows.enable": ("enable", "address", "words")},
        body=body,
        stall=stall,
    )
    for enable, address, words in seen.words("rows.enable"):
        for at, word in enumerate(np.reshape(words, shape)):
            if enable >> at & 1:
                memory[address[at] if isinstance(address, list) else address, at] = word
    return memory


@pytest.mark.parametrize(("name", "raw"), single_axis(VARIATIONS, [True, False]))
def test_a_batch_becomes_rows(name, raw):
    case = Case(VARIATIONS[name], raw, count=3)
    memory = unpack([case])
    expected = case.rows()
    np.testing.assert_array_equal(memory[: len(expected)], expected)
    assert (memory[len(expected) :] == 1 << 40).all()


@pytest.mark.parametrize(("settings", "stall", "raw"), single_axis([{}, {"columns": 16}], [0.5, 0.0], [True, False]))
def test_batches_fill_the_halves_in_turn(raw, stall, settings):
    cases = [Case(settings, raw, count, seed) for seed, count in enumerate((4, 1, 2))]
    memory = unpack(cases, stall)
    half = len(memory) // 2
    last, second, first = cases[2].rows(), cases[1].rows(), cases[0].rows()
    np.testing.assert_array_equal(memory[: len(last)], last)
    np.testing.assert_array_equal(memory[len(last) : len(first)], first[len(last) :])
    np.testing.assert_array_equal(memory[half : half + len(second)], second)
