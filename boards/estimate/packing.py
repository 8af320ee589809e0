"""Pack a netlist's small LUTs in pairs into six-input LUTs.

An UltraScale+ LUT6 splits into two functions with at most five nets together. Vivado splits LUTs whenever two small
functions share inputs; Yosys never does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import combinations

MAX_INPUTS = 5
"""Most nets that both halves of a split LUT6 read together."""

MIN_SHARED = 1
"""Fewest common inputs of a pair."""


def pair_luts(inputs: Sequence[frozenset[Hashable]]) -> list[tuple[int, int]]:
    """Index pairs of LUTs that fit a LUT6 each, from the nets that each LUT reads.

    No index occurs twice, equal netlists give equal pairs, and a pair has at least `MIN_SHARED` common nets. A greedy
    matching: pairs with most common nets first, then the largest LUT with the largest partner that fits. A LUT of five
    inputs has at most 31 subsets of inputs, so the work grows linearly with the netlist.
    """
    single = [len(nets) <= MAX_INPUTS for nets in inputs]
    rank: dict[Hashable, int] = {}
    for nets in inputs:
        for net in sorted(nets, key=repr):
            rank.setdefault(net, len(rank))
    pins = [sorted(rank[net] for net in nets) for nets in inputs]
    pairs: list[tuple[int, int]] = []
    for shared in range(MAX_INPUTS, MIN_SHARED - 1, -1):
        groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for index, pins_of_lut in enumerate(pins):
            if single[index] and len(pins_of_lut) >= shared:
                for subset in combinations(pins_of_lut, shared):
                    groups[subset].append(index)
        for group in groups.values():
            pairs += _pair_group([i for i in group if single[i]], pins, shared, single)
    return pairs


def _pair_group(
    group: list[int], pins: Sequence[Sequence[int]], shared: int, single: list[bool]
) -> list[tuple[int, int]]:
    """Pair LUTs that read the same ``shared`` nets, the largest with the largest that fits."""
    by_size: dict[int, list[int]] = defaultdict(list)
    for index in reversed(group):
        by_size[len(pins[index])].append(index)
    pairs = []
    for size in sorted(by_size, reverse=True):
        for partner_size in range(min(size, MAX_INPUTS + shared - size), shared - 1, -1):
            first, second = by_size[size], by_size.get(partner_size, [])
            while first and second and (first is not second or len(first) > 1):
                pair = first.pop(), second.pop()
                single[pair[0]] = single[pair[1]] = False
                pairs.append(pair)
    return pairs
