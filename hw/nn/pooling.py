"""Activation, max-pool and average pool of a stage's sums."""

import itertools

from amaranth.hdl import Array, Const, Module, Mux, ShapeLike, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.fixed import Q8_16
from ...golden.nn.array.mapping import Mapping
from ..primitives.pipeline import Pipeline, delayed
from ..primitives.reciprocal import ReciprocalDivider
from ..primitives.registers import data_register
from .activation_units import COMPONENTS
from .interfaces import ACTIVATION, PoolControl, activation_address


class Pooling(wiring.Component):
    """Largest sum of each pool, clipped, without handshake; a pool may be a single sum.

    Activation units precede all pools. An average is a clip, an exact sum, and a division; `Mapping.average_turns`
    columns share a divider, and other outputs wait as long. Parts of sums alternate, with a delay line of partial
    results. For two pixels of a pool the larger sum of both column halves is the output of the lower half's column.

    Parameters
    ----------
    mapping : Mapping
        Columns, pools and units.

    Attributes
    ----------
    valid : In, 1
        `sums` has a sum a column; parts follow each other, those without a channel included.
    sums : In, array of columns Q8.16
    control : In, `PoolControl`
        Control of these sums.
    relu : In, 1
        Clip at 0; constant during a stage's sums.
    limit : In, Q8.16, only where a stage has one
        Upper clip; as `relu`.
    leaky, ... : In, range(constants + 1), for each of `Mapping.units`
        `ActivationUnit.choice` of the stage; as `relu`.
    merged : In, 1, only where a stage has words of two pixels of a pool
        Sums are of two pixels; as `relu`.
    parts : In, range(number of them), only where pools have sums of different parts
        Index of the stage's parts in `Mapping.pooled_parts`; as `relu`.
    divisor : In, range(divisions + 1), only where a stage has an average pool
        Division from 1, 0 for a max-pool; as `relu`.
    write : Out, 1
        `o` has outputs, `Mapping.pooling_latency` cycles after the pool's last sums.
    mask : Out, a bit for each column
        Columns with an output; 0 without `write`.
    address : Out, `activation_address`
        Address of the first column's output in the activation memory.
    position : Out, range(output_depth), only where a stage has sums in parts
        Address in the output memory.
    o : Out, array of columns Q8.16
        Outputs, a channel a column.
    """

    def __init__(self, mapping: Mapping) -> None:
        self.mapping, self.has_limits = mapping, mapping.has_limits
        address, values = activation_address(mapping), data.ArrayLayout(ACTIVATION, mapping.columns)
        self._inputs = {
            "valid": In(1),
            "sums": In(values),
            "control": In(PoolControl(mapping)),
            "relu": In(1),
            **({"limit": In(ACTIVATION)} if self.has_limits else {}),
            **({"merged": In(1)} if mapping.has_merged_pixels else {}),
            **({"parts": In(range(len(mapping.pooled_parts)))} if len(mapping.pooled_parts) > 1 else {}),
            **({"divisor": In(range(len(mapping.averages) + 1))} if mapping.averages else {}),
        }
        super().__init__(
            {
                **self._inputs,
                **{unit.kind: In(range(len(unit.constants) + 1)) for unit in mapping.units},
                "write": Out(1),
                "mask": Out(mapping.columns),
                "address": Out(address),
                **({"position": Out(range(mapping.output_depth))} if mapping.most_parts > 1 else {}),
                "o": Out(values),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pipeline = self._pipeline(m)
        activated = self._activated(m, pipeline) if self.mapping.units else self
        pooled, relu = Signal(), Signal(reset_less=True)
        target, mask = Signal.like(self.address, reset_less=True), Signal.like(self.mask, reset_less=True)
        m.d.sync += [
            pooled.eq(activated.valid & activated.control.last & self._has_channel(activated)),
            target.eq(activated.control.target),
            mask.eq(activated.control.mask),
            relu.eq(activated.relu),
        ]
        first = activated.control.first
        restarts = first | activated.divisor.any() if self.mapping.averages else first
        sums: list[Value] = list(activated.sums)
        if self.mapping.has_padded_pools:
            sums = [Mux(activated.control.inside, value, Q8_16.minimum) for value in sums]
        parts = activated.parts if len(self.mapping.pooled_parts) > 1 else Const(0)
        best: list[Value] = []
        for column, value in enumerate(sums):
            largest, *others = line = self._line(ACTIVATION, f"best{column}")
            before = self._before(line, parts)
            with m.If(activated.valid & (restarts | (value > before))):
                m.d.sync += largest.eq(value)
            if others:
                with m.Elif(activated.valid):
                    m.d.sync += largest.eq(before)
                with m.If(activated.valid):
                    m.d.sync += [into.eq(source) for source, into in itertools.pairwise(line)]
            best.append(largest)
        kept: list[Value] = list(best)
        if self.has_limits:
            limit = Signal(ACTIVATION, reset_less=True)
            m.d.sync += limit.eq(activated.limit)
            kept = [Mux(value > limit, limit, value) for value in best]
        if self.mapping.has_merged_pixels:
            best, kept = self._merged(m, activated, best, kept)
        rectified = [Mux(relu & value[-1], 0, upper) for value, upper in zip(best, kept, strict=True)]
        mask = Mux(pooled, mask, 0)
        if self.mapping.most_parts > 1:
            position = pipeline.place("inputs", self.control.position, "position", reset_less=True)
            m.d.comb += self.position.eq(position.at("outputs"))
        if self.mapping.averages:
            self._average(m, pipeline, activated, parts, rectified, pooled, target, mask)
        else:
            m.d.sync += [self.mask.eq(mask), self.write.eq(pooled), data_register(m, self.address).eq(target)]
            o = data_register(m, self.o, "o_data")
            m.d.sync += [into.eq(value) for into, value in zip(o, rectified, strict=True)]
        return m

    def _pipeline(self, m: Module) -> Pipeline:
        """Stages: inputs, sums behind activation units, largest, average, outputs."""
        mapping = self.mapping
        stages = {"inputs": 0, **{unit.kind: unit.latency for unit in mapping.units}, "sums": 0, "largest": 1}
        if mapping.averages:
            division = max(reciprocal.latency for reciprocal in mapping.averages)
            stages |= {"values": 1, "totals": 1, "held": 1, "quotients": division, "averages": mapping.average_turns}
        pipeline = Pipeline(m, stages | {"outputs": 1})
        assert pipeline.latency("inputs", "outputs") == mapping.pooling_latency
        return pipeline

    def _merged(
        self, m: Module, activated: "Pooling | wiring.PureInterface", best: list[Value], kept: list[Value]
    ) -> tuple[list[Value], list[Value]]:
        """Larger value of each pair of both column halves, unlimited and limited."""
        half, merged = len(best) // 2, Signal(reset_less=True)
        m.d.sync += merged.eq(activated.merged)
        upper = [merged & (right > left) for left, right in zip(best[:half], best[half:], strict=True)]
        picked = [
            [Mux(takes, right, left) for takes, left, right in zip(upper, values[:half], values[half:], strict=True)]
            for values in (best, kept)
        ]
        return picked[0] + best[half:], picked[1] + kept[half:]

    def _has_channel(self, activated: "Pooling | wiring.PureInterface") -> Value:
        """Whether any column of the sums has a channel."""
        return activated.control.mask.any() if self.mapping.most_parts > 1 else Const(1)

    def _line(self, shape: ShapeLike, name: str) -> list[Signal]:
        """Delay line of a column's partial results, one a part, latest first."""
        names = [f"{name}_{part}" if part else name for part in range(self.mapping.pooled_parts[-1])]
        return [Signal(shape, name=name, reset_less=True) for name in names]

    def _before(self, line: list[Signal], parts: Value) -> Value:
        """Partial result of the present part; `parts` as the port."""
        taps = [line[count - 1] for count in self.mapping.pooled_parts]
        return Array(taps)[parts] if len(taps) > 1 else taps[0]

    def _activated(self, m: Module, pipeline: Pipeline) -> wiring.PureInterface:
        """Inputs behind the activation units, all delayed alike."""
        activated = wiring.Signature(self._inputs).create(path=("activated",))
        sums, stage = self.sums, "inputs"
        for unit in self.mapping.units:
            m.submodules[unit.kind] = component = COMPONENTS[unit.kind](unit, self.mapping.columns)
            choice = pipeline.place("inputs", getattr(self, unit.kind), f"{unit.kind}_choice", reset_less=True)
            m.d.comb += [component.choice.eq(choice.at(stage)), component.i.eq(sums)]
            sums, stage = component.o, unit.kind
        m.d.comb += activated.sums.eq(sums)
        for name in (name for name in self._inputs if name not in ("sums", "control")):
            later = pipeline.place("inputs", getattr(self, name), f"activated_{name}", reset_less=name != "valid")
            m.d.comb += getattr(activated, name).eq(later.at("sums"))
        for name in activated.control.shape().members:
            later = pipeline.place("inputs", self.control[name], f"activated_{name}", reset_less=True)
            m.d.comb += activated.control[name].eq(later.at("sums"))
        return activated

    def _average(
        self,
        m: Module,
        pipeline: Pipeline,
        activated: "Pooling | wiring.PureInterface",
        parts: Value,
        rectified: list[Value],
        pooled: Signal,
        target: Signal,
        mask: Value,
    ) -> None:
        """Sums of pools and divisions; other outputs pass a delay line."""
        reciprocals, turns = self.mapping.averages, self.mapping.average_turns
        values = [Signal(ACTIVATION, name=f"value{column}", reset_less=True) for column in range(len(rectified))]
        m.d.sync += [into.eq(value) for into, value in zip(values, rectified, strict=True)]
        # control in the cycle of the values
        valid = pipeline.place("sums", activated.valid, "valid").at("values")
        first = pipeline.place("sums", activated.control.first, "first", reset_less=True).at("values")
        divisor = pipeline.place("sums", activated.divisor, "divisor", reset_less=True).at("values")
        last = pipeline.place("largest", pooled, "last").at("values") & divisor.any()
        offset, bits = Signal(range(reciprocals[-1].offset + 1)), reciprocals[-1].numerator_bits
        with m.Switch(divisor):
            for number, reciprocal in enumerate(reciprocals, start=1):
                with m.Case(number):
                    m.d.comb += offset.eq(reciprocal.offset)
        lines = [self._line(unsigned(bits), f"total{column}") for column in range(len(values))]
        totals, parts = (
            [line[0] for line in lines],
            pipeline.place("sums", parts, "total_parts", reset_less=True).at("values"),
        )
        with m.If(valid):
            for line, value in zip(lines, values, strict=True):
                m.d.sync += line[0].eq(Mux(first, offset, self._before(line, parts)) + value)
                m.d.sync += [into.eq(source) for source, into in itertools.pairwise(line)]
        # a pool's sums are held until all are divided; the next stage may begin meanwhile
        complete, chosen = (
            pipeline.place("values", last, "complete").at("totals"),
            Signal.like(activated.divisor, reset_less=True),
        )
        of_total = pipeline.place("values", divisor, "total_divisor", reset_less=True).at("totals")
        with m.If(complete):
            m.d.sync += chosen.eq(of_total)
        quotients: list[Value] = []
        for unit in range(0, len(values), turns):
            held = [Signal(bits, name=f"held{unit + index}", reset_less=True) for index in range(turns)]
            results = [Signal(ACTIVATION, name=f"found{unit + index}", reset_less=True) for index in range(turns)]
            of_quotient = pipeline.place("held", chosen, f"chosen{unit}", reset_less=True).at("quotients")
            m.d.sync += results[-1].eq(self._divide(m, held[0], of_quotient, unit))
            for index in range(turns):
                m.d.sync += held[index].eq(Mux(complete, totals[unit + index], held[min(index + 1, turns - 1)]))
                if index + 1 < turns:
                    m.d.sync += results[index].eq(results[index + 1])
            quotients += results
        averaged = pipeline.place("values", divisor.any(), "averaged", reset_less=True).at("averages")
        o = data_register(m, self.o, "o_data")
        for into, value, quotient in zip(o, values, quotients, strict=True):
            passed = pipeline.place("values", value, "waiting", reset_less=True).at("averages")
            m.d.sync += into.eq(Mux(averaged, quotient, passed))
        for into, flag, name in ((self.mask, mask, "mask"), (self.write, pooled, "write")):
            m.d.sync += into.eq(pipeline.place("largest", flag, name).at("averages"))
        address = pipeline.place("largest", target, "address", reset_less=True).at("averages")
        m.d.sync += data_register(m, self.address).eq(address)

    def _divide(self, m: Module, numerator: Signal, chosen: Value, unit: int) -> Value:
        """Chosen quotient of a numerator, with the latency of the slowest division."""
        reciprocals, quotient = self.mapping.averages, Signal(ACTIVATION, name=f"quotient{unit}")
        slowest = max(reciprocal.latency for reciprocal in reciprocals)
        outputs = []
        for reciprocal in reciprocals:
            m.submodules[f"divider{unit}_{reciprocal.count}"] = divider = ReciprocalDivider(reciprocal)
            m.d.comb += divider.numerator.eq(numerator)
            outputs.append(
                delayed(
                    m,
                    divider.quotient,
                    slowest - reciprocal.latency,
                    f"quotient{unit}_{reciprocal.count}",
                    reset_less=True,
                )
            )
        with m.Switch(chosen):
            for number, value in enumerate(outputs, start=1):
                with m.Case(number):
                    m.d.comb += quotient.eq(value)
        return quotient
