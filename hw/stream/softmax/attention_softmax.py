"""RTL of `attention_softmax`: three phases (scores, weights, weight rows), each with one query block at a time."""

from amaranth.hdl import Cat, EnableInserter, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.utils import exact_log2

from ....golden.fixed import Q8_16
from ....golden.stream.softmax.attention_softmax import REPEATS, AttentionSoftmaxSpec
from ...ports import elements, members
from ...primitives.pipeline import Pipeline
from ...primitives.registers import data_register, replicas
from ...probe import probe
from .attention_scores import AttentionScores
from .attention_weights import AttentionWeights
from .key_tiles import KeyTiles, block_layout
from .score_banks import ScoreBanks


class AttentionSoftmax(wiring.Component):
    """Softmax of query blocks; two blocks are in progress, each in a memory bank.

    A block passes three phases: scores arrive, weights replace them, weight rows are read. Each phase holds one block
    at a time. A score word is accepted in every cycle while a block has a bank.
    """

    def __init__(self, spec: AttentionSoftmaxSpec) -> None:
        self.spec = spec
        layout = block_layout(spec.queries, spec.keys, REPEATS.width)
        self.phases = [_Phase(layout, name) for name in ("come", "weigh", "read")]
        self.weights = AttentionWeights(spec)
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        (come, weigh, read), weights = self.phases, self.weights
        m.submodules.banks = banks = ScoreBanks(spec)
        m.submodules.scores = scores = AttentionScores(spec)
        move = Signal()
        m.submodules.weights = EnableInserter(move)(weights)
        busy, filled, weighted, freed = (Signal(2, name=name) for name in ("busy", "filled", "weighted", "freed"))
        taken = self._come(m, come, scores, busy)
        emptied = self._weigh(m, come, weigh, (scores, weights, banks), filled, move)
        self._read(m, weigh, read, banks, weighted, freed)
        m.d.sync += [
            busy.eq(busy & ~freed | taken),
            filled.eq(filled & ~emptied | scores.stored),
            weighted.eq(weighted & ~freed | Mux(move, weights.put_last, 0)),
        ]
        m.d.comb += [
            banks.store.eq(scores.store),
            Value.cast(banks.store_at).eq(Value.cast(scores.place)),
            banks.scores.eq(Value.cast(scores.exponent)),
            banks.put.eq(weights.put & move),
            Value.cast(banks.put_at).eq(Value.cast(weights.put_at)),
            banks.weights.eq(Value.cast(weights.weight)),
            banks.turn.eq(weighted),
            Value.cast(weights.word).eq(banks.word),
            self.inverse.valid.eq(weights.done),
            Value.cast(self.inverse.payload).eq(Value.cast(weights.inverse)),
            move.eq(~self.inverse.valid | self.inverse.ready),
        ]
        probe(self, move=move, busy=busy, filled=filled, weighted=weighted)
        return m

    def _come(self, m: Module, come: "_Phase", scores: AttentionScores, busy: Signal) -> Value:
        """Accept operations and their scores; returns a flag for each bank: a block begins to arrive."""
        spec, operation, block = self.spec, self.operation.payload, come.block
        m.submodules.groups = groups = KeyTiles(block.shape(), spec.columns)
        words = spec.columns // spec.exponentials
        bank, begin, step, last = Signal(), Signal(), Signal(), Signal()
        word = Signal(range(words))
        shift, factor, fraction = (
            Signal.like(port, name=f"kept_{name}", reset_less=True)
            for name, port in (("shift", scores.shift), ("factor", operation.factor), ("fraction", scores.fraction))
        )
        m.d.comb += [
            self.operation.ready.eq(~come.active & ~come.over & ~busy.bit_select(bank, 1)),
            begin.eq(self.operation.valid & self.operation.ready),
            self.scores.ready.eq(come.active),
            step.eq(self.scores.valid & self.scores.ready),
            last.eq(word == words - 1),
            groups.start.eq(begin),
            groups.step.eq(step & last),
            Value.cast(groups.block).eq(Value.cast(block)),
        ]
        with m.If(step):
            m.d.sync += word.eq(Mux(last, 0, word + 1))
            with m.If(last & groups.ends):
                m.d.sync += [come.active.eq(0), come.over.eq(1)]
        with m.If(begin):
            m.d.sync += [
                come.active.eq(1),
                bank.eq(~bank),
                block.queries.eq(operation.queries - 1),
                block.keys.eq(operation.keys - 1),
                block.first.eq(operation.first),
                block.causal.eq(operation.causal),
                block.repeats.eq(0),
                come.repeats.eq(operation.repeats - 1),
                block.bank.eq(bank),
                shift.eq(operation.query_shift + operation.key_shift),
                factor.eq(operation.factor),
                fraction.eq(operation.fraction),
            ]
        fresh = (groups.tile == 0) & (word == 0)
        m.d.comb += [
            scores.valid.eq(step),
            Value.cast(scores.score).eq(Value.cast(self.scores.payload.score)),
            scores.shift.eq(shift),
            scores.factor.eq(factor),
            scores.fraction.eq(fraction),
            scores.given.bank.eq(block.bank),
            scores.given.query.eq(groups.query),
            scores.given.part.eq(Cat(word, groups.tile)),
            scores.edge.eq(groups.edge),
            scores.fresh.eq(fresh),
            scores.begins.eq(fresh & (groups.query == 0)),
            scores.ends.eq(last & groups.ends),
        ]
        probe(self, word=word, step=step, last=last)
        return Cat(begin & ~bank, begin & bank)

    def _weigh(
        self,
        m: Module,
        come: "_Phase",
        weigh: "_Phase",
        parts: tuple[AttentionScores, AttentionWeights, ScoreBanks],
        filled: Signal,
        move: Signal,
    ) -> Value:
        """Read the scores of a block, query by query; returns a flag for each bank: all scores have been read."""
        (scores, weights, banks), block = parts, weigh.block
        lanes = self.spec.exponentials
        part, query, edge = Signal(len(banks.get_at.part)), Signal.like(block.queries), Signal.like(block.keys)
        valid, last_part, last_query, finish = Signal(), Signal(), Signal(), Signal()
        inside = edge[: exact_log2(lanes)]
        m.d.comb += [
            valid.eq(weigh.active & filled.bit_select(block.bank, 1)),
            last_part.eq(part == edge[exact_log2(lanes) :]),
            last_query.eq(query == block.queries),
            finish.eq(valid & move & last_part & last_query),
        ]
        with m.If(valid & move):
            m.d.sync += part.eq(part + 1)
            with m.If(last_part):
                m.d.sync += [part.eq(0), query.eq(query + 1), edge.eq(edge + block.causal)]
        with m.If(finish):
            m.d.sync += [weigh.active.eq(0), weigh.over.eq(1)]
        with m.If(come.over & ~weigh.active & ~weigh.over):
            arrived = come.block
            m.d.sync += [come.over.eq(0), weigh.active.eq(1)]
            m.d.sync += [Value.cast(block).eq(Value.cast(arrived)), block.repeats.eq(come.repeats)]
            m.d.sync += [part.eq(0), query.eq(0), edge.eq(Mux(arrived.causal, arrived.first, arrived.keys))]
        for address in (banks.get_at, weights.at):
            m.d.comb += [address.bank.eq(block.bank), address.query.eq(query), address.part.eq(part)]
        m.d.comb += [
            banks.get.eq(valid & move),
            scores.largest_at.eq(Cat(query, block.bank)),
            weights.valid.eq(valid),
            weights.seen.eq(Cat(~last_part | (inside >= lane if lane else 1) for lane in range(lanes))),
            weights.begins.eq(part == 0),
            weights.ends.eq(last_part),
            weights.last.eq(last_query),
            weights.largest.eq(scores.largest),
            weights.clipped.eq(Mux(query == 0, Mux(block.bank, scores.clipped[1], scores.clipped[0]), 0)),
        ]
        probe(self, part=part, query=query, edge=edge, finish=finish)
        return Cat(finish & ~block.bank, finish & block.bank)

    def _read(
        self, m: Module, weigh: "_Phase", read: "_Phase", banks: ScoreBanks, weighted: Signal, freed: Signal
    ) -> None:
        """Read and mask weight rows, in a pipeline of address, memory and output with a common enable."""
        spec, block = self.spec, read.block
        m.submodules.tiles = tiles = KeyTiles(block.shape(), spec.lanes)
        # two copies of the valid flag, for lower fanout: for control, and for the wide row register
        (offered, offers), valid = replicas(2, "offered"), Signal(2)
        go, loads, hand = Signal(), Signal(), Signal()
        m.d.comb += [
            go.eq(~offered | self.o.ready),
            loads.eq(~offers | self.o.ready),
            hand.eq(weigh.over & ~read.active),
            tiles.start.eq(hand),
            Value.cast(tiles.block).eq(Value.cast(block)),
            tiles.step.eq(go & read.active & weighted.bit_select(block.bank, 1)),
            self.o.valid.eq(offered),
        ]
        with m.If(hand):
            m.d.sync += [weigh.over.eq(0), read.active.eq(1), Value.cast(block).eq(Value.cast(weigh.block))]
        with m.Elif(tiles.step & tiles.ends):
            m.d.sync += read.active.eq(0)
        pipeline = Pipeline(m, {"tile": 0, "address": 1, "word": 1, "row": 1}, enable=go)
        with m.If(go):
            m.d.sync += [valid.eq(Cat(tiles.step, valid[0])), *(flag.eq(valid[1]) for flag in (offered, offers))]
        query, tile, bank, edge, swap, ends = (
            pipeline.place("tile", value, name, reset_less=True)
            for value, name in (
                (tiles.query, "query"),
                (tiles.tile, "tile"),
                (block.bank, "row_bank"),
                (tiles.edge, "edge"),
                (tiles.begins, "swap"),
                (tiles.ends, "ends"),
            )
        )
        m.d.comb += [
            banks.row.eq(valid[0] & go),
            banks.row_at.bank.eq(bank.at("address")),
            banks.row_at.query.eq(query.at("address")),
            banks.row_at.tile.eq(tile.at("address")),
        ]
        free = go & valid[1] & ends.at("word")
        m.d.comb += freed.eq(Cat(free & ~bank.at("word"), free & bank.at("word")))
        # visible lanes: in the tile of the last visible key, up to this key; in earlier tiles, all
        bits = exact_log2(spec.lanes)
        within, whole = edge.at("address")[:bits], edge.at("address")[bits:] != tile.at("address")
        seen = pipeline.place(
            "address", Cat(whole | (within >= lane) if lane else 1 for lane in range(spec.lanes)), "seen", True
        )
        last = pipeline.place("address", ~whole, "last", reset_less=True)
        payload = data_register(m, self.o.payload, "row")
        weight = elements(payload.weight, spec.streams()["o"].fields[0])
        for lane, register in enumerate(weight):
            stored = banks.weight[lane * Q8_16.width : (lane + 1) * Q8_16.width].as_signed()
            with m.If(loads):
                m.d.sync += register.eq(Mux(seen.at("word")[lane], stored, 0))
        for name, value in (
            ("query", query.at("word")),
            ("swap", swap.at("word")),
            ("first", pipeline.place("tile", tiles.tile == 0, "first", reset_less=True).at("word")),
            ("last", last.at("word")),
        ):
            pipeline.load(getattr(payload, name), value)
        probe(self, offered=offered, offers=offers, row_valid=valid, row_ends=ends.later, row_banks=bank.later)


class _Phase:
    """State of a phase: its query block; `active` during its work; `over` while its block waits for the next phase."""

    def __init__(self, layout: data.StructLayout, name: str) -> None:
        self.block = Signal(layout, name=f"{name}_block", reset_less=True)
        self.repeats = Signal(layout["repeats"].shape, name=f"{name}_repeats", reset_less=True)
        self.active, self.over = Signal(name=f"{name}_active"), Signal(name=f"{name}_over")
