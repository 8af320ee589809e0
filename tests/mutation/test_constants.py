"""Registers that are always 0: no false positives, and the cases that ternary simulation must find."""

from itertools import product

import numpy as np

from fabtune.mutation.constants import always_zero

INPUTS, REGISTERS, GATES = 2, 4, 12


def reached(registers, gates):
    """Registers that are 1 in some state reachable from 0, by exhaustive inputs."""
    seen, left = set(), [(0,) * len(registers)]
    while left:
        state = left.pop()
        if state in seen:
            continue
        seen.add(state)
        for inputs in product((0, 1), repeat=INPUTS):
            values = dict(zip((0, *range(1, INPUTS + 1), *registers), (0, *inputs, *state), strict=True))

            def of(literal, values=values):
                return values[literal >> 1] ^ literal & 1

            for gate, (a, b) in gates.items():
                values[gate] = of(a) & of(b)
            left.append(tuple(of(after) for after in registers.values()))
    return {register for state in seen for register, value in zip(registers, state, strict=True) if value}


def test_what_can_be_1_is_not_among_them():
    found = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        first = 1 + INPUTS + REGISTERS
        gates = {one: tuple(int(a) for a in rng.integers(2 * one, size=2)) for one in range(first, first + GATES)}
        registers = {one: int(rng.integers(2 * (first + GATES))) for one in range(1 + INPUTS, first)}
        zero = always_zero(registers, gates)
        assert not zero & reached(registers, gates)
        found += len(zero)
    assert found > 50


def test_a_counter_by_twos_never_has_its_lowest_bit_and_a_held_input_is_0():
    # registers 3 (holds itself), 4 (inverts itself), 5 (takes input 1, held at 0), 6 (takes input 2)
    assert always_zero({3: 6, 4: 9, 5: 2, 6: 4}, {}, held=[1]) == {3, 5}
    assert always_zero({3: 6, 4: 9, 5: 2, 6: 4}, {}) == {3}
