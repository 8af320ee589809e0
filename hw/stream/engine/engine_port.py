"""Interface between a trainer and the stream engine."""

from __future__ import annotations

from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.axi.bus import ADDRESS_BITS, BEAT_COUNT_BITS
from ....golden.stream.machine.program_sequencer import HEADER_FIELDS, ProgramSequencerSpec
from ....golden.stream.memory.chunks import ChunkLayout
from ....golden.stream.norms import Q11_16
from ....golden.stream.weights.word_offsets import WordOffsetsSpec
from ....golden.zo.coefficient import COEFFICIENT
from ...axi.memory_port import BEATS, ReadPort
from ...ports import layout, shape
from ..memory.chunk_line import chunk_layout

CLIPPED_BITS = 32
"""Bits of the count of clipped values."""
OPERATION_BITS = 16
"""Bits of an instruction's number."""
REQUEST = ("factor", "word", "count", "fraction", "wide", "table")
"""Fields of a request for offsets, a subset of the command of `word_offsets`."""


def chunk_values(chunks: ChunkLayout) -> data.StructLayout:
    """Layout of a chunk's contents: ``value``, an array of all columns."""
    return data.StructLayout({"value": data.ArrayLayout(shape(Q11_16), chunks.columns)})


class EnginePort(wiring.Signature):
    """Forward pass of the engine, over a set of plus rows and a set of minus rows; with the trainer's directions.

    The trainer sends the sentences of a pass and the rows of their tokens. Then it starts the engine, sends all
    instructions of the program, and finally reads the results. A pass has at most `sequencer.sums` rows, both signs
    together.

    Members
    -------
    load : Out(1)
        Begin a pass; one cycle. Sentences and samples follow. The members from `rows` to `weights` stay stable until
        `done`.
    start : Out(1)
        Run the program; one cycle, after `loaded` and after all sentences.
    rows, sentences, longest : Out
        Number of tokens and of sentences for each sign, and of tokens in the longest sentence.
    capacity, features, inputs : Out, 16, 32 and 32 bits
        From the program header: tokens in the buffers at once, both signs together; values of a token; input `Buffer`.
    kept, row_beats, alike : Out, 1, 16 and 1 bits
        `kept`: rows come from a forward cache or a network's cut, 4 bytes a value. `row_beats`: beats of such a row.
        `alike`: each such row serves both signs; if low, plus and minus rows alternate.
    amount : Out, signed(27)
        Factor of the perturbation in the plus rows' weights; minus rows have the opposite sign.
    weights : Out, `address` bits
        Byte address of the weight stream.
    sentence : Out, stream of ``first``, ``length``
        First row and tokens of each plus sentence, in order, before `start`.
    instruction : Out, stream of the fields of an instruction
    beats : Out, stream of beats
        Rows of all tokens, sentence after sentence. Sample rows are groups of 32 values, 3 bytes each.
    loaded : In(1)
        All rows are in the memory, for both signs; one cycle.
    operands_read, operands : Out, In, streams of chunk addresses and contents
        Reads of results after `done`, and the results in order.
    request, offsets : In, Out, streams
        Requests for offset words, and the words, as in `word_offsets`.
    stream_read, corrections_read : In, `ReadPort`
        Reads of the weight stream with its tables, and of sensitive weights.
    done : In(1)
        The pass is over, and all results are in the memory; one cycle.
    clipped : In(32)
        With `done`: number of clipped values, both signs together.
    operation : In(16)
        Number of the active instruction, from 1; 0 while idle.
    failed : In(1)
        The weight stream is invalid; held until reset.
    number : In(32)
        With `failed`: number of the invalid tile.
    fetched : In(1)
        All requested beats of the weight stream have arrived. Read-ahead beyond the last tiles may arrive after the
        pass.
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
        address_layout, values = chunk_layout(chunks), chunk_values(chunks)
        super().__init__(
            {
                **dict.fromkeys(("load", "start"), Out(1)),
                **dict.fromkeys(("rows", "sentences", "longest"), Out(count)),
                **{name: Out(HEADER_FIELDS[name]) for name in ("capacity", "features", "inputs")},
                **dict.fromkeys(("kept", "alike"), Out(1)),
                "row_beats": Out(BEAT_COUNT_BITS),
                "amount": Out(shape(COEFFICIENT)),
                "weights": Out(address),
                "sentence": Out(stream.Signature(data.StructLayout({"first": count, "length": count}))),
                "instruction": Out(stream.Signature(layout(sequencer.streams()["o"]))),
                "beats": Out(BEATS),
                "loaded": In(1),
                "operands_read": Out(stream.Signature(address_layout)),
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
