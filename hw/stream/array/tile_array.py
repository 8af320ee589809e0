"""RTL of `tile_array`: two DSP cascades a column; rows are skewed, and a wave through the cascades swaps the tile."""

from amaranth.hdl import Cat, Const, EnableInserter, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ....golden.fixed import Q8_16
from ....golden.stream.array.tile_array import Q4_14, SUM, TileArraySpec
from ...ports import elements, members
from ...primitives.pipeline import Pipeline
from ...primitives.registers import data_register, replicas
from ...probe import probe


class TileArray(wiring.Component):
    """Multiply rows by a stationary tile, while the next tile loads into shadow registers.

    Accepts a row a cycle and, in parallel, a beat of the next tile a cycle. Sums come `spec.latency` cycles after the
    row. All registers stall while sums are offered and not accepted; if `o.ready` is constant 1, synthesis removes the
    stall logic.
    """

    def __init__(self, spec: TileArraySpec) -> None:
        self.spec = spec
        self.columns = [TileColumn(spec.lanes) for _ in range(spec.columns)]
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        move, taken, swapped, complete = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            move.eq(~self.o.valid | self.o.ready),
            self.x.ready.eq(move & (~self.x.payload.swap | complete)),
            taken.eq(self.x.valid & self.x.ready),
            swapped.eq(taken & self.x.payload.swap),
        ]
        moving = Module()
        m.submodules.moving = EnableInserter(move)(moving)
        beat, write = self._load(m, move, swapped, complete)
        stages = {"inputs": 0, "lanes": 1, "operands": 1, "products": 1, "cascades": spec.beats, "sums": 1}
        pipeline = Pipeline(moving, stages)
        assert pipeline.latency("inputs", "sums") == spec.latency
        valid = Signal(spec.latency)
        m.d.comb += self.o.valid.eq(pipeline.place_flag("inputs", taken, valid).at("sums"))
        # bit n: the row at cascade stage n is the first row of a tile
        swap = Signal(spec.beats)
        moving.d.sync += swap.eq(Cat(swapped, swap[:-1]))
        streams = spec.streams()
        operands = []
        for lane, value in enumerate(elements(self.x.payload.value, streams["x"].fields[0])):
            skew = Pipeline(moving, {"inputs": 0, "operand": 2 + lane // 2})
            operands.append(skew.place("inputs", value, f"x{lane}", reset_less=True).at("operand"))
        weights = elements(beat, streams["w"].fields[0])
        for number, result in enumerate(elements(self.o.payload.sum, streams["o"].fields[0])):
            column = self.columns[number]
            m.submodules[f"column{number}"] = EnableInserter(move)(column)
            m.d.comb += [column.x[lane].eq(operand) for lane, operand in enumerate(operands)]
            m.d.comb += [into.eq(weights[half * spec.columns + number]) for half, into in enumerate(column.w)]
            m.d.comb += [column.write.eq(write), column.swap.eq(swap), result.eq(column.o)]
        if spec.tag:
            tag = pipeline.place("inputs", self.x.payload.tag, "tag", reset_less=True)
            # timing: a shift-register primitive has a slow output; a reset keeps the last register out of it
            output_tag = Signal.like(self.x.payload.tag, name="output_tag")
            pipeline.load(output_tag, tag.at("cascades"))
            m.d.comb += self.o.payload.tag.eq(output_tag)
            probe(self, tags=[*tag.later, output_tag])
        probe(self, valid=valid)
        return m

    def _load(self, m: Module, move: Signal, swapped: Signal, complete: Signal) -> tuple[Signal, Signal]:
        """Register arriving beats; returns the beat, and a write enable for the shadow weights of each lane pair.

        A tile counts as complete when its last beat is accepted. The beat is written to the shadow weights a cycle
        later, still before the swap wave arrives there. The next tile's writes cannot overtake the wave: they begin a
        cycle after it, and both advance by at most one lane pair a cycle.
        """
        number = Signal(self.spec.beats, init=1)
        held = Signal(self.spec.beats)
        beat = Signal(len(self.w.payload.as_value()), reset_less=True)
        # copies of a flag: the beat registers' fanout stays out of `ready`
        of_beat, of_ready, of_rows = flags = replicas(3, "tile_complete")
        m.d.comb += self.w.ready.eq(move & ~(held[0] & of_ready))
        with m.If(move & ~(held[0] & of_beat)):
            m.d.sync += [held.eq(Mux(self.w.valid, number, 0)), beat.eq(self.w.payload)]
        with m.If(self.w.valid & self.w.ready):
            m.d.sync += number.eq(number.rotate_left(1))
        full = Signal()
        m.d.comb += [complete.eq(of_rows), full.eq(self.w.valid & self.w.ready & number[-1])]
        m.d.sync += [flag.eq(~swapped & (flag | full)) for flag in flags]
        return beat, Cat(held[0] & ~of_beat, held[1:])


class TileColumn(wiring.Component):
    """Sum the products of one column: two DSP cascades, for even and for odd lanes, and a final adder.

    A DSP per lane holds weight, shadow weight, product and partial sum in its registers.

    Attributes
    ----------
    x : In, array of lanes values of 24 bits
        Operands. Lane n comes ``n // 2`` cycles after lane 0 of the same row.
    w : In, array of 2 weights of 18 bits
        Weights of a lane pair.
    write : In, one bit per lane pair
        Write `w` to the pair's shadow weights.
    swap : In, one bit per lane pair
        Copy the pair's shadow weights to its active weights, which apply to `x` of the next cycle.
    o : Out, 48 bits
        Sum of a row's products, ``lanes / 2 + 2`` cycles after the row's lane 0.
    """

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        weights = data.ArrayLayout(signed(Q4_14.width), 2)
        super().__init__(
            {
                "x": In(data.ArrayLayout(signed(Q8_16.width), lanes)),
                "w": In(weights),
                "write": In(lanes // 2),
                "swap": In(lanes // 2),
                "o": Out(signed(SUM.width)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        totals: list[Value] = [Const(0), Const(0)]
        active: list[Signal] = []
        for lane in range(self._lanes):
            pair, cascade = divmod(lane, 2)
            shadow, weight = (
                Signal(signed(Q4_14.width), name=f"{name}{lane}", reset_less=True) for name in ("shadow", "weight")
            )
            product = Signal(signed(Q8_16.width + Q4_14.width), name=f"product{lane}", reset_less=True)
            total = Signal(signed(SUM.width), name=f"total{lane}", reset_less=True)
            with m.If(self.write[pair]):
                m.d.sync += shadow.eq(self.w[cascade])
            with m.If(self.swap[pair]):
                m.d.sync += weight.eq(shadow)
            m.d.sync += [product.eq(self.x[lane] * weight), total.eq(totals[cascade] + product)]
            totals[cascade] = total
            active.append(weight)
        even, odd = totals
        result = data_register(m, self.o, "sum")
        m.d.sync += result.eq(even + odd)
        probe(self, weights=active)
        return m
