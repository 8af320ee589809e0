"""Pauses between stages: every word finds its operands, and no word could start earlier; all words are checked."""

import itertools

import pytest

from fabtune.golden.models.text import network_from
from fabtune.golden.nn.array import latency
from fabtune.golden.nn.array.mapping import Mapping
from fabtune.golden.nn.array.pauses import stage_pauses

NETWORKS = {
    "two convolutions": "1x8x8 conv6k3p1 relu pool2 conv12k3 relu flatten fc20 relu fc3",
    "pairs of pixels": "1x7x11 conv5k2 relu conv3k2 relu conv18k3 relu flatten fc21 relu fc3",
    "depthwise": "3x6x6 conv20k3p1 relu dw3p1 relu conv8k1 relu flatten fc3",
    "residual": "3x6x6 conv16k3p1 relu conv16k3p1 relu conv16k3p1 add@4,1 relu avg6 flatten fc3",
    "concatenation": "9x4x5 conv10k3 relu conv12k1x3p0,0,1,1 relu cat@3,1 conv5k2 flatten fc3",
    "short stages": "20 fc8 relu fc8 relu fc8 relu fc3",
}
ARRAYS = [(16, 2), (32, 8), (32, 16), (16, 16)]


def mapping_of(text, lanes, columns):
    return Mapping.of(network_from(text), lanes, columns, byte_inputs=False, pairs="frozen")


def turns(loops):
    """Iterations of loops, innermost first."""
    return [turn[::-1] for turn in itertools.product(*(range(loop.count) for loop in reversed(loops)))]


def read(mapping, number):
    """Addresses read with weights, by cycle from the stage's first word."""
    stage, window, found, cycle = mapping.stages[number], mapping.window(number), [], 0
    for outer in turns(stage.loops[stage.inner :]):
        begin = cycle
        if stage.residual is not None:
            at = stage.residual.base + sum(map(int.__mul__, outer, stage.residual.strides))
            found.append((cycle, range(at, at + stage.parts * mapping.columns)))
            cycle += 1
        for inner in turns(stage.loops[: stage.inner]):
            strides = [loop.stride for loop in stage.loops]
            at = stage.base + sum(map(int.__mul__, (*inner, *outer), strides))
            left = mapping.lanes if stage.within else window.values - inner[0] * stage.sum_lanes
            found.append((cycle, range(at, at + min(left, mapping.lanes if stage.within else stage.sum_lanes))))
            cycle += 1
        cycle = max(cycle, begin + stage.parts)
    return found


def written(mapping, number):
    """Cycle of the last word of each output's sum, by address; segments of sums follow each other."""
    stage, found, cycle = mapping.stages[number], {}, 0
    period = max(stage.sum_words, stage.parts)
    channels = stage.channels * (2 if stage.spread else 1)
    inner, wide = stage.loops[stage.inner : stage.inner + 2], stage.parts * mapping.columns
    groups = {group: at * wide for at, group in enumerate(turns(stage.loops[stage.inner + 4 :]))}
    for outer in turns(stage.loops[stage.inner :]):
        if all(turn == loop.count - 1 for turn, loop in zip(outer, inner, strict=False)):
            at = stage.target + sum(map(int.__mul__, outer[2:], stage.targets))
            for column in range(min(wide, channels - groups[outer[4:]])):
                found[at + column] = cycle + stage.sum_words - 1 + column // mapping.columns
        cycle += period
    return found


def early(mapping, pauses, across):
    """Stages with a word before its operand is written."""
    apart = latency.write_to_read(across, mapping.pooling_latency)
    ready, found, begin = {}, set(), 0
    for number, stage in enumerate(mapping.stages):
        begin += pauses[number] + latency.STAGE_STATES
        for cycle, addresses in read(mapping, number):
            if any(begin + cycle < ready.get(address, -apart) + apart for address in addresses):
                found.add(number)
        ready |= {address: begin + cycle for address, cycle in written(mapping, number).items()}
        begin += stage.cycles
    return found


@pytest.mark.parametrize(("lanes", "columns"), ARRAYS)
@pytest.mark.parametrize("name", NETWORKS)
def test_no_word_comes_too_early(name, lanes, columns):
    mapping = mapping_of(NETWORKS[name], lanes, columns)
    across = latency.across_latency(lanes)
    pauses = stage_pauses(mapping, across)
    assert not early(mapping, pauses, across)
    for number, pause in enumerate(pauses[1:], start=1):
        assert pause < latency.write_to_read(across, mapping.pooling_latency)
        shorter = list(pauses)
        shorter[number] -= 1
        # segments of the previous sum are rounded in sequence
        turns_left = mapping.stages[number - 1].parts - latency.STAGE_STATES
        assert pause in (0, turns_left) or number in early(mapping, shorter, across)


def test_of_short_stages_the_first_one_waits_until_its_outputs_before_can_be_read():
    mapping = mapping_of("20 fc3 relu fc3", 16, 16)
    first, second = stage_pauses(mapping, latency.across_latency(16))
    assert [stage.cycles for stage in mapping.stages] == [2, 1]
    drain = latency.drain_cycles(latency.across_latency(16), mapping.pooling_latency)
    # the second stage ends 1 + 3 + `second` cycles after the first stage's last word, then the first waits
    assert first == drain + latency.FILLED + 1 - (1 + latency.STAGE_STATES)
    assert first > 0 < second
