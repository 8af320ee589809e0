"""Packing of a netlist's small LUTs into six-input LUTs.

An UltraScale+ LUT6 splits into two functions when both together read at most five different nets. Vivado uses
that whenever two small functions share inputs; Yosys never does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import combinations

MAX_INPUTS = 5
"""Nets that the two halves of a split LUT6 can read together."""

MIN_SHARED = 1
"""Inputs that a pair must have in common."""


def pair_luts(inputs: Sequence[frozenset[Hashable]]) -> list[tuple[int, int]]:
    """Choose pairs of LUTs that fit one LUT6 each.

    Parameters
    ----------
    inputs : sequence of frozenset
        The nets that each LUT reads; two LUTs are paired if they have at least `MIN_SHARED` in common.

    Returns
    -------
    list of tuple of int
        Index pairs; no index occurs twice. The same netlist always gives the same pairs.

    Notes
    -----
    A greedy matching: the pairs with most inputs in common first and, among those, the largest LUT with the
    largest partner that still fits. Each LUT of five inputs or less has at most 31 subsets of inputs, so the
    work grows linearly with the netlist.
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
        for index, own in enumerate(pins):
            if single[index] and len(own) >= shared:
                for subset in combinations(own, shared):
                    groups[subset].append(index)
        for group in groups.values():
            pairs += _pair_group([i for i in group if single[i]], pins, shared, single)
    return pairs


def _pair_group(
    group: list[int], pins: Sequence[Sequence[int]], shared: int, single: list[bool]
) -> list[tuple[int, int]]:
    """Pair LUTs that all read the same ``shared`` nets, the largest with the largest that fits."""
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
