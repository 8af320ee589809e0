"""Bench of `tensor_sequencer`: instructions of all kinds, tuned or not, with sizes near a tile or a beat."""

from __future__ import annotations

import numpy as np

from ....golden.block import Words
from ....golden.stream.instruction import FIELD_BITS, NO_WORD, Kind
from ....golden.stream.machine.limits import MOST_FRACTION
from ....golden.stream.weights.tensor_sequencer import PassInstruction, TensorSequencerSpec, words_of
from ....golden.zo.coefficient import COEFFICIENT
from ...phase import Phase
from ...stimulus import two_jobs

_WORDS = ("word", "bias_word", "position_word")
_TENSORS = (Kind.LINEAR, Kind.LINEAR, Kind.NORM, Kind.POSITIONS, Kind.ATTENTION)


def random_instruction(spec: TensorSequencerSpec, rng: np.random.Generator) -> PassInstruction:
    """Random instruction; fields without meaning for its kind are random."""

    def size(most: int) -> int:
        """Random size: small, near a multiple of a tile's or record's size, or up to `most`."""
        about = int(rng.choice([spec.lanes, spec.columns, spec.weights.weights, 64])) * int(rng.integers(1, 4))
        near = about + int(rng.integers(-1, 2))
        return min(max(int(rng.choice([int(rng.integers(1, 9)), near, int(rng.integers(1, most))])), 1), most)

    fields = {name: int(rng.integers(1 << bits)) for name, bits in FIELD_BITS.items() if bits < 63}
    # sometimes NO_WORD, or NO_WORD with one bit flipped
    nearly = NO_WORD ^ 1 << int(rng.integers(NO_WORD.bit_length()))
    fields |= {name: int(rng.choice([fields[name], NO_WORD, nearly])) for name in _WORDS}
    values = {name: fields[name] for name in PassInstruction._fields if name in fields}
    values |= {"kind": int(rng.choice([*_TENSORS, *Kind, 0])), "inputs": size(4000), "outputs": size(4000)}
    values |= {"width": size(1 << 15), "fraction": int(rng.integers(MOST_FRACTION, endpoint=True))}
    values |= {"corrections": int(rng.choice([0, size(1 << 20)])), "part": int(rng.integers(spec.tables))}
    return PassInstruction(
        **values,
        longest=int(rng.choice([0, 1, 2, spec.columns + 1, int(rng.integers(1, 3 * spec.columns))])),
        amount=int(rng.integers(COEFFICIENT.minimum, COEFFICIENT.maximum, endpoint=True)),
    )


def stimulus(spec: TensorSequencerSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Random instructions with at least `words` tensors in all."""
    instructions, tensors = list[PassInstruction](), 0
    while tensors < words:
        instructions.append(random_instruction(spec, rng))
        tensors += len([*spec.tensors(instructions[-1])])
    return {"operation": words_of(instructions, spec.streams()["operation"].fields)}


def scenario(spec: TensorSequencerSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs. Their cycles depend on bit patterns of the matrix sizes, and are not compared."""
    return two_jobs(spec, rng, words, stimulus)
