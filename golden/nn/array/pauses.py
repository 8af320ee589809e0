"""Pauses between the stages of a sample: a stage begins at the first cycle from which all its words read written
values.

Words are issued one a cycle, so that write and read cycles of each value are known. A stage may overlap the outputs of
the preceding stage that its words do not read yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from . import latency
from .mapping import Mapping
from .stage_mapping import Loop, StageMapping


def stage_pauses(mapping: Mapping, across: int) -> tuple[int, ...]:
    """Cycles that each stage waits after the preceding stage's last word, in addition to `latency.STAGE_STATES`.

    The first stage follows the last stage of the preceding sample. A single stage waits
    until the preceding sample's outputs are readable.

    Parameters
    ----------
    mapping : Mapping
        Without perturbation signs, ``sides=1``.
    across : int
        Latency of the array, `latency.across_latency`.
    """
    stages, found = mapping.stages, list[int]()
    apart = latency.write_to_read(across, mapping.pooling_latency)
    parts = max(stage.parts for stage in stages)
    latest = [dict(_written(stage, mapping.columns, apart + parts)) for stage in stages]
    readable = latency.drain_cycles(across, mapping.pooling_latency) + parts - 1 + latency.FILLED + 1
    whole = sum(stage.cycles + latency.STAGE_STATES for stage in stages)
    for number, stage in enumerate(stages):
        # outputs of the preceding sample are readable, and sums do not collide with the preceding stage's parts
        pause = max(
            readable - (whole - stage.cycles - latency.STAGE_STATES),
            stages[number - 1].parts - latency.STAGE_STATES,
            0,
        )
        behind = 0
        for before in reversed(range(number)):
            if behind > apart + parts:
                break
            for word, addresses in enumerate(_read(mapping, number, apart + parts)):
                needed = max((latest[before].get(address, -apart) for address in addresses), default=-apart)
                pause = max(pause, needed + apart - behind - word - 1 - latency.STAGE_STATES)
            behind += stages[before].cycles + latency.STAGE_STATES
        found.append(pause)
    return tuple(found)


def _turns(loops: Sequence[Loop], number: int) -> list[int]:
    """Iteration of each loop, innermost first, of a flat iteration number."""
    turns = []
    for loop in loops:
        number, turn = divmod(number, loop.count)
        turns.append(turn)
    return turns


def _written(stage: StageMapping, columns: int, cycles: int) -> Iterator[tuple[int, int]]:
    """Addresses of a stage's latest outputs, with their cycles after the first outputs of the last word.

    Parts of a sum follow each other, a cycle apart.
    """
    outer, channels = stage.loops[stage.inner :], stage.channels * (2 if stage.spread else 1)
    period = max(stage.sum_words, stage.parts)
    for number in reversed(range(stage.sums)):
        back = (stage.sums - 1 - number) * period
        if back > cycles:
            return
        turns = _turns(outer, number)
        if any(turn + 1 < loop.count for turn, loop in zip(turns[:2], outer, strict=False)):
            continue
        address = stage.target + sum(turn * step for turn, step in zip(turns[2:], stage.targets, strict=True))
        group = _turns(stage.loops[stage.inner + 4 :], number // prod(loop.count for loop in outer[:4]))
        first = sum(
            turn * prod(loop.count for loop in stage.loops[stage.inner + 4 :][:at]) for at, turn in enumerate(group)
        )
        for part in range(stage.parts):
            left = channels - (first * stage.parts + part) * columns
            for column in range(min(left, columns)):
                yield address + part * columns + column, part - back


def _read(mapping: Mapping, at: int, words: int) -> Iterator[range]:
    """Addresses read by each of the first words of a stage, a range a cycle, empty in a wait."""
    stage, window = mapping.stages[at], mapping.window(at)
    period, cycle = max(stage.sum_words, stage.parts), 0
    for number in range(stage.sums):
        turns = _turns(stage.loops[stage.inner :], number)
        base = stage.base + sum(
            turn * loop.stride for turn, loop in zip(turns, stage.loops[stage.inner :], strict=True)
        )
        reads = list[range]()
        if stage.residual is not None:
            added = stage.residual.base + sum(
                turn * stride for turn, stride in zip(turns, stage.residual.strides, strict=True)
            )
            reads.append(range(added, added + stage.parts * mapping.columns))
        for word in range(stage.words):
            inner = _turns(stage.loops[: stage.inner], word)
            begin = base + sum(turn * loop.stride for turn, loop in zip(inner, stage.loops, strict=False))
            values = mapping.lanes if stage.within else min(stage.sum_lanes, window.values - inner[0] * stage.sum_lanes)
            reads.append(range(begin, begin + values))
        for addresses in (*reads, *[range(0)] * (period - len(reads))):
            if cycle == words:
                return
            yield addresses
            cycle += 1
