"""Bench of `axi_registers`: random accesses while the core's inputs and the lock change; more without a reset."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from ...golden.axi.axi_registers import AxiRegistersSpec, Model
from ...golden.axi.register_map import WORD
from ..phase import ANSWERING, HOST, Phase, Step

STROBES = (0b1111, 0b0001, 0b0010, 0b0100, 0b1000, 0b0011, 0b1100, 0b0110, 0b0111, 0b1110)
"""Byte strobes: the whole word, single bytes, adjacent bytes."""
WHOLE = STROBES[0]
LINE = "_line"
"""Suffix of an interrupt line's name, after the register's."""


def answer(model: Model, step: Step) -> tuple[int, int]:
    """Apply a step to the model; return AXI response and value, the value 0 if undefined."""
    if isinstance(step.at, int):
        return model.read(step.at) if step.kind == "read" else (model.write(step.at, step.value, step.strobe), 0)
    if step.kind == "set":
        model.wires[step.at] = step.value
    elif step.kind == "pulse":
        model.pulse(step.at)
    elif step.kind == "count":
        return 0, model.strobes[step.at]
    elif step.at.endswith(LINE):
        return 0, model.line(step.at.removesuffix(LINE))
    return 0, model.wires.get(step.at, 0)


def scenario(spec: AxiRegistersSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Each bit of each register, then random accesses, a tenth to unmapped addresses; then more without a reset.

    The core's inputs and the lock change meanwhile.
    """
    model = Model(spec.map, spec.signature)
    return [_phase(spec, rng, model, max(words // 2, 8), reset) for reset in (True, False)]


def _phase(spec: AxiRegistersSpec, rng: np.random.Generator, model: Model, count: int, reset: bool) -> Phase:
    model.strobes.clear()
    known = [register.offset for register in spec.map]
    shown, settings = ([item.name for item in spec.map.accessed(access)] for access in ("R", "RW"))
    steps: list[Step] = [Step("read", offset) for offset in known]
    acting = [item.offset for item in spec.map.accessed("W", "W1C", "W1S")]
    if reset:
        steps += _each_bit(spec, rng)
        count += len(steps)
    names = {item.offset: item.name for item in spec.map if item.name in (*settings, "command")}
    kinds: tuple[Literal["write", "read", "set", "pulse", "get"], ...] = ("write", "read", "set", "pulse", "get")
    locked = model.wires["locked"]
    while len(steps) < count:
        kind = kinds[rng.choice(5, p=(0.4, 0.3, 0.1, 0.05, 0.15))]
        offset = int(rng.choice(known)) if rng.random() < 0.9 else WORD * int(rng.integers(64))
        if kind == "write" and rng.random() < 0.3:
            offset = int(rng.choice(acting))
        value = int(rng.integers(1 << 32))
        if kind in ("write", "read"):
            # reads compare the whole word
            strobe = int(rng.choice(STROBES)) if kind == "write" else WHOLE
            steps.append(Step(kind, offset, value, strobe))
            while rng.random() < 0.3:
                steps[-1] = replace(steps[-1], early=True)
                steps.append(Step(kind, int(rng.choice(known)), int(rng.integers(1 << 32)), strobe))
            if kind == "write" and (name := names.get(int(steps[-1].at))):
                steps.append(Step("get", name))
        elif kind == "set":
            if rng.random() < 0.5:
                locked = 1 - locked
                steps.append(Step(kind, "locked", locked))
            else:
                steps.append(Step(kind, str(rng.choice(shown)), value))
        elif kind == "pulse":
            steps.append(Step(kind, "finished" if rng.random() < 0.9 else "clear"))
        else:
            steps.append(Step(kind, str(rng.choice([*settings, "command", "interrupt_line", "soft_reset"]))))
    steps.append(Step("count", "command_strobe"))
    answers = [result for step in steps for result in [answer(model, step)] if step.kind in ANSWERING]
    responses, values = np.array(answers).T
    expected = {HOST: {"response": responses[:, None], "value": values[:, None]}}
    return Phase({}, expected, reset, script=tuple(steps), midway=(len(steps) // 2, 0, 12))


def _each_bit(spec: AxiRegistersSpec, rng: np.random.Generator) -> list[Step]:
    """Write both values of each bit; write all ones byte by byte to registers that clear unwritten bytes."""
    steps = []
    for item in spec.map.accessed("RW", "W", "W1S"):
        value = int(rng.integers(1 << 32))
        for word in (value, value ^ 0xFFFFFFFF):
            steps += [Step("write", item.offset, word), Step("get", item.name)]
        steps += [Step("pulse", "clear"), Step("get", item.name)] if item.access == "W1S" else []
        for strobe in (1, 2, 4, 8) if item.access in ("W", "W1S") else ():
            steps += [Step("write", item.offset, 0xFFFFFFFF, strobe), Step("get", item.name)]
    return steps
