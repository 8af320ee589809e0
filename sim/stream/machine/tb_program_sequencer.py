"""Bench of `program_sequencer`: valid and faulty programs; complete and partial runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ....golden.axi.bus import BEAT
from ....golden.axi.regions import Bytes
from ....golden.block import Words
from ....golden.stream.instruction import FIELD_BITS, NO_WORD, Instruction, Kind
from ....golden.stream.machine.cost_model import on_paper
from ....golden.stream.machine.layout import StreamLayout
from ....golden.stream.machine.limits import MOST_FRACTION, MOST_SHIFT
from ....golden.stream.machine.program import Program, program_of
from ....golden.stream.machine.program_sequencer import ProgramSequencerSpec
from ....golden.transformer.blocks import (
    Activation,
    Gate,
    Linear,
    Normalisation,
    PoolTokens,
    Positions,
    Residual,
    SelfAttention,
    Transformer,
    UnitLength,
)
from ....golden.transformer.builder import INPUTS, TransformerBuilder
from ...phase import Phase
from ...stimulus import two_jobs

_BUFFERS = ("source", "destination")
_OWN = {
    Kind.LINEAR: (
        "inputs",
        "outputs",
        "join",
        "other",
        "form",
        "fraction",
        "corrections",
        "correction_beat",
        "beat",
        "word",
    ),
    Kind.ATTENTION: ("heads", "key_heads", "width", "rotary", "table", "second", "third", *_BUFFERS),
    Kind.NORM: ("inputs", "beat", "bias_word", "word", *_BUFFERS),
    Kind.ACTIVATION: ("activation", "inputs", *_BUFFERS),
    Kind.GATE: ("second", "join", "activation", *_BUFFERS),
    Kind.ADD: ("second", "inputs", "outputs", *_BUFFERS),
    Kind.POSITIONS: ("positions", "table", "position_word", *_BUFFERS),
    Kind.POOL: ("pool", "kind", "last", *_BUFFERS),
    Kind.UNIT: ("source_shift", "result_shift", "beat", *_BUFFERS),
}
"""Fields that the checks read, by instruction kind."""
_HEADER_BYTES = (0, 3, 4, 5, 6, 8, 10, 12, 13, 14, 15, 36, 40)
_HEADER_FIELDS = ("capacity", "words", "behind", "stream_beats", "beats")


def network(heads: int, key_heads: int, width: int, causal: bool) -> Transformer:
    """Random shapes of an encoder or decoder layer; the layer has all kinds of operations."""
    made, features = TransformerBuilder("bench", heads * width), heads * width
    start = made.add("positions", Positions(40), INPUTS)
    normalised = made.add("before", Normalisation(not causal, 1e-5, not causal), start)
    sizes = {"queries": features, "keys": key_heads * width, "values": key_heads * width}
    reads = [made.add(name, Linear(size, not causal), normalised) for name, size in sizes.items()]
    rotary = 10_000.0 if causal and width % 2 == 0 else None
    attended = made.add("attention", SelfAttention(heads, key_heads, width, causal, rotary), *reads)
    middle = made.add("residual", Residual(), start, made.add("output", Linear(features), attended))
    between = made.add("between", Normalisation(True, 1e-5), middle)
    gate = made.add("activation", Activation("silu"), made.add("gate", Linear(2 * features + 3), between))
    hidden = made.add("product", Gate(), gate, made.add("up", Linear(2 * features + 3), between))
    end = made.add("end", Residual(), middle, made.add("down", Linear(features), hidden))
    behind = made.add("behind", Normalisation(True, 1e-5), made.add("twice", Residual(), end, middle))
    pooled = made.add("pool", PoolTokens("last"), made.add("pair", Gate(), behind, between))
    made.add("head", Linear(3), made.add("unit", UnitLength(), made.add("alone", Activation("gelu"), pooled)))
    return made.network()


def programs(spec: ProgramSequencerSpec) -> list[Program]:
    """Valid programs: an encoder, a decoder with sensitive weights, and an encoder cut after a prefix."""
    drawn = []
    encoder, decoder = (3, 3, 2 * spec.columns, False), (4, 2, spec.lanes, True)
    for (heads, key_heads, width, causal), cuts in ((encoder, False), (decoder, False), (encoder, True)):
        made = on_paper(network(heads, key_heads, width, causal))
        matrices = frozenset(name for name in made.network.parameter_shapes if name[1] == "weight")
        first = min(matrices)
        sensitive = {first: np.arange(0, 90, 3)} if causal else {}
        cut = made.network.cuts[1] if cuts else 0
        drawn.append(program_of(StreamLayout(made, matrices, spec.size, sensitive, cut), bytes(32)))
    return drawn


def _wrong(program: Program, rng: np.random.Generator) -> Program:
    """Program with a changed instruction field or header count: off by 1, slightly off, or random."""
    if rng.random() < 0.2:
        name = str(rng.choice(_HEADER_FIELDS))
        value = getattr(program, name) + int(rng.choice([-1, 1, -int(rng.integers(0, 1 + getattr(program, name)))]))
        return replace(program, **{name: max(value, 0)})
    number = int(rng.integers(0, len(program.instructions)))
    instruction = program.instructions[number]
    name = str(rng.choice(_OWN[Kind(instruction.kind)] if rng.random() < 0.75 else [*FIELD_BITS]))
    bits, old = FIELD_BITS[name], getattr(instruction, name)
    candidates = [old + 1, old - 1, int(rng.integers(0, 1 << bits)), int(rng.integers(0, 1 << bits)) >> bits // 2, 0]
    if name.endswith("word"):
        candidates.append(NO_WORD)
    if name == "fraction":
        candidates = [MOST_FRACTION, MOST_FRACTION + 1]
    if name.endswith("shift"):
        candidates = [MOST_SHIFT, MOST_SHIFT + 1]
    value = int(candidates[rng.integers(0, len(candidates))]) % (1 << bits)
    changed = {name: value}
    if name in ("inputs", "outputs") and instruction.kind != Kind.LINEAR and rng.random() < 0.6:
        value = int(rng.choice([value, 4095, 4096, 4097]))
        changed = {"inputs": value, "outputs": value}
    if name == "width" and rng.random() < 0.5:
        # the same number of features, but heads narrower than the columns or the lanes
        width = int(rng.choice([1, program.size.columns // 2, program.size.columns]))
        heads = instruction.inputs // width
        changed = {"width": width, "heads": heads, "key_heads": int(rng.choice([heads, heads // 2]))}
    instructions = list(program.instructions)
    instructions[number] = Instruction(**vars(instruction) | changed)
    return replace(program, instructions=tuple(instructions))


def _image(program: Program, rng: np.random.Generator) -> Bytes:
    """Image of a program; some are truncated or too long, some have a corrupt header byte."""
    image, kind = program.image(), rng.random()
    if kind < 0.05:
        return image[: BEAT * int(rng.integers(0, image.size // BEAT))]
    if kind < 0.08:
        return np.concatenate([image, image[:BEAT]])
    if kind < 0.16:
        image = image.copy()
        image[rng.choice(_HEADER_BYTES)] ^= 1 << int(rng.integers(0, 8))
    return image


def stimulus(spec: ProgramSequencerSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Loads and runs of valid and faulty programs."""
    commands, images, errors = list[tuple[int, int, int]](), list[Bytes](), list[bool]()
    for program in _drawn(spec, rng):
        image = _image(program, rng) if rng.random() < 0.7 else program.image()
        beats = image.size // BEAT
        broken = np.zeros(beats, bool)
        if beats and rng.random() < 0.03:
            broken[rng.integers(0, beats)] = True
        commands.append((0, 0, beats))
        images.append(image.reshape(-1, BEAT))
        errors.extend(broken)
        for _ in range(int(rng.integers(0, 3))):
            first, count = (int(rng.integers(0, len(program.instructions) + 2)) for _ in range(2))
            commands.append((1, int(rng.choice([0, first])), int(rng.choice([0, count]))))
        if len(errors) > words // 4:
            break
    run, first, counts = np.array(commands, np.int64).T[..., None]
    return {
        "command": {"run": run, "first": first, "count": counts},
        "image": {"data": np.concatenate(images).astype(np.int64), "error": np.array(errors, np.int64)[:, None]},
    }


def _drawn(spec: ProgramSequencerSpec, rng: np.random.Generator) -> Iterator[Program]:
    """Endless valid and faulty programs of few instructions; few suffice, as each instruction is checked on its own."""
    right = programs(spec)
    yield replace(right[0], instructions=())
    last_instruction = right[0].instructions[-1]
    if spec.operations < 64:
        yield replace(right[0], instructions=_ending((last_instruction,) * spec.operations))
        yield replace(right[0], instructions=_ending((last_instruction,) * (spec.operations + 1)))
    yield from right
    while True:
        program = right[int(rng.integers(0, len(right)))]
        available = program.instructions
        kinds = rng.choice([*Kind], int(rng.integers(1, 4)))
        chosen = [rng.choice([place for place, entry in enumerate(available) if entry.kind == kind]) for kind in kinds]
        chosen = sorted(chosen) if program.cut else chosen
        program = replace(program, instructions=_ending(tuple(available[place] for place in chosen)))
        yield program if rng.random() < 0.2 else _wrong(program, rng)


def _ending(instructions: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
    """Instructions with `last` set on the final instruction only."""
    return (*(replace(instruction, last=0) for instruction in instructions[:-1]), replace(instructions[-1], last=1))


def scenario(spec: ProgramSequencerSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs. Their cycles depend on which checks each program passes, and are not compared."""
    return two_jobs(spec, rng, words, stimulus)
