"""Interface between a trainer and the engine that runs programs: a pass, its sentences, samples and results."""

from __future__ import annotations

from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.axi.bus import ADDRESS_BITS, BEAT_COUNT_BITS
from ....golden.stream.machine.program_sequencer import COUNTS, ProgramSequencerSpec
from ....golden.stream.memory.chunks import ChunkLayout
from ....golden.stream.norms import Q11_16
from ....golden.stream.weights.word_offsets import WordOffsetsSpec
from ....golden.zo.coefficient import COEFFICIENT
from ...axi.memory_port import BEATS, ReadPort
from ...ports import layout, shape

CLIPPED_BITS = 32
"""Bits of the number of values that a pass clips."""
OPERATION_BITS = 16
"""Bits of an instruction's number."""
REQUEST = ("factor", "word", "count", "fraction", "wide", "table")
"""Fields of a request for offsets, those of a command of `word_offsets`."""


def chunk_layout(chunks: ChunkLayout) -> data.StructLayout:
    """Layout of a chunk's place: ``wide``, ``address``, ``part``."""
    return data.StructLayout({"wide": 1, "address": shape(chunks.address), "part": shape(chunks.part)})


def chunk_values(chunks: ChunkLayout) -> data.StructLayout:
    """Layout of a chunk's ``value``: those of all its columns."""
    return data.StructLayout({"value": data.ArrayLayout(shape(Q11_16), chunks.columns)})


class EnginePort(wiring.Signature):
    """A pass of the engine, as the trainer sees it.

    The trainer gives the sentences of a pass, and the rows of their tokens. Then it starts the engine, gives it all
    instructions of the program, and reads the results in the end.

    Parameters
    ----------
    chunks : ChunkLayout
        Activation memory.
    sequencer : ProgramSequencerSpec
        Its instructions; most rows of a pass, both sides, are its `sums`.
    offsets : WordOffsetsSpec
        Block of the deltas.
    address : int
        Bits of a byte address.

    Members
    -------
    load : Out(1)
        Begin a pass: its sentences and samples come. One cycle. The members up to `weights` stay until `done`.
    start : Out(1)
        Run the program; one cycle, all sentences having been given, and behind `loaded`.
    rows, sentences, longest : Out
        Tokens of all sentences of a side, number of sentences, tokens of the longest one.
    capacity, features, inputs : Out, 16, 32 and 32 bits
        Of the program, as its header has them: tokens of all sides that are in the buffers at once, values of a token,
        the `Buffer` that they go to.
    kept, row_beats, alike : Out, 1, 16 and 1 bits
        Rows that come are those of a cache, or of what passes a cut: 4 bytes a value. Beats of one, and whether it is
        that of both sides; if not, rows of the plus and of the minus side take turns.
    amount : Out, signed(27)
        Multiple of the perturbation that the plus side adds.
    weights : Out, `address` bits
        Byte address of the stream of weights.
    sentence : Out, stream of ``first``, ``length``
        First row and tokens of each sentence of the plus side, in order, before `start`.
    instruction : Out, stream of the fields of an instruction
    beats : Out, stream of beats
        Rows of all tokens, one sentence behind the other; rows of 32 values of 3 bytes each, but where they are `kept`.
    loaded : In(1)
        They are in the memory, on both sides; one cycle.
    operands_read, operands : Out, In, streams of a chunk's place, of its values
        Results, behind `done`, in order.
    request, offsets : In, Out, streams
        Requests for offsets, and their words, as `word_offsets` takes and gives them.
    stream_read, corrections_read : In, `ReadPort`
        Reads of the stream with its tables, and of sensitive weights.
    done : In(1)
        The pass is over, and all its results are in the memory; one cycle.
    clipped : In(32)
        With `done`: values that were clipped, of both sides.
    operation : In(16)
        Number of the instruction at work, counted from 1; 0 where none is.
    failed : In(1)
        The stream of weights is wrong; held until reset.
    number : In(32)
        With `failed`: of the tile.
    fetched : In(1)
        All beats of the stream that were asked for have come: with the last tiles also come those behind their inputs,
        which no pass waits for.
    """

    def __init__(
        self,
        chunks: ChunkLayout,
        sequencer: ProgramSequencerSpec,
        offsets: WordOffsetsSpec,
        address: int = ADDRESS_BITS,
    ) -> None:
        count = range(sequencer.sums // 2 + 1)
        streams = offsets.streams()
        command = {item.name: shape(item.format) for item in streams["command"].fields if item.name in REQUEST}
        place, values = chunk_layout(chunks), chunk_values(chunks)
        super().__init__(
            {
                **dict.fromkeys(("load", "start"), Out(1)),
                **dict.fromkeys(("rows", "sentences", "longest"), Out(count)),
                **{name: Out(COUNTS[name]) for name in ("capacity", "features", "inputs")},
                **dict.fromkeys(("kept", "alike"), Out(1)),
                "row_beats": Out(BEAT_COUNT_BITS),
                "amount": Out(shape(COEFFICIENT)),
                "weights": Out(address),
                "sentence": Out(stream.Signature(data.StructLayout({"first": count, "length": count}))),
                "instruction": Out(stream.Signature(layout(sequencer.streams()["o"]))),
                "beats": Out(BEATS),
                "loaded": In(1),
                "operands_read": Out(stream.Signature(place)),
                "operands": In(stream.Signature(values)),
                "request": In(stream.Signature(data.StructLayout(command))),
                "offsets": Out(stream.Signature(layout(streams["offsets"]))),
                "stream_read": In(ReadPort(address)),
                "corrections_read": In(ReadPort(address)),
                "done": In(1),
                "clipped": In(CLIPPED_BITS),
                "operation": In(OPERATION_BITS),
                "failed": In(1),
                "number": In(32),
                "fetched": In(1),
            }
        )
