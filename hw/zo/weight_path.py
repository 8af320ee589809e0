"""RTL of `weight_path`: dequantiser, sparse corrections and perturbation in series."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring

from ...golden.fixed import Q4_12
from ...golden.zo.perturb import SIGN
from ...golden.zo.weight_path import WeightPathSpec
from ..nf4.nf4_dequant import Nf4Dequant
from ..ports import elements, members
from .perturb import Perturb
from .sparse_add import SparseAdd


class WeightPath(wiring.Component):
    """Dequantise, correct and perturb weights, a beat a cycle.

    A beat with k corrections takes max(k, 1) cycles. The latency `spec.latency` is the sum of the three stages'
    latencies.
    """

    def __init__(self, spec: WeightPathSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        m.submodules.dequant = dequant = Nf4Dequant(spec.dequant)
        m.submodules.add = add = SparseAdd(spec.add)
        m.submodules.perturb = perturb = Perturb(spec.perturb)
        coded, dequantised = self.codes.payload, dequant.i.payload
        # scales of `codes` have fewer bits than scales of the dequantiser
        narrow, wide = (
            {item.name: elements(getattr(word, item.name), item) for item in port.fields}
            for word, port in ((coded, spec.streams()["codes"]), (dequantised, spec.dequant.streams()["i"]))
        )
        m.d.comb += [
            dequant.i.valid.eq(self.codes.valid),
            self.codes.ready.eq(dequant.i.ready),
            dequantised.tag.eq(Cat(coded.last, coded.sign)),
        ]
        for name in ("code", "scale", "select"):
            if name in narrow:
                m.d.comb += [inner.eq(outer) for inner, outer in zip(wide[name], narrow[name], strict=True)]

        values = elements(dequant.o.payload.value, spec.dequant.streams()["o"].fields[0])
        lanes = spec.add.streams()["i"].fields[0]
        m.d.comb += [
            add.i.valid.eq(dequant.o.valid),
            dequant.o.ready.eq(add.i.ready),
            Cat(add.i.payload.last, add.i.payload.tag).eq(dequant.o.payload.tag),
            # a level is at most 1 and a scale at most the largest weight, so the dropped bits are copies of the sign
            *(
                weight.eq(value[: Q4_12.width])
                for weight, value in zip(elements(add.i.payload.weight, lanes), values, strict=True)
            ),
        ]
        wiring.connect(m, wiring.flipped(self.sparse), add.sparse)

        added, moved = add.o.payload, perturb.i.payload
        wants, meet = Signal(), Signal()
        m.d.comb += [
            # a beat with sign 0 takes no numbers
            wants.eq(added.tag[0]),
            meet.eq(self.u.valid | ~wants),
            perturb.i.valid.eq(add.o.valid & meet),
            add.o.ready.eq(perturb.i.ready & meet),
            self.u.ready.eq(perturb.i.ready & add.o.valid & wants),
            moved.weight.eq(added.weight),
            moved.sign.eq(added.tag[: SIGN.width]),
            moved.tag.eq(Cat(added.last, added.error)),
            *(getattr(moved, item.name).eq(getattr(self.u.payload, item.name)) for item in spec.streams()["u"].fields),
            self.o.valid.eq(perturb.o.valid),
            perturb.o.ready.eq(self.o.ready),
            self.o.payload.weight.eq(perturb.o.payload.weight),
            Cat(self.o.payload.last, self.o.payload.error).eq(perturb.o.payload.tag),
        ]
        return m
