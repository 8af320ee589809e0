"""RTL of `tile`: a random number generator and the perturbation of weight lanes."""

from amaranth.hdl import Module
from amaranth.lib import wiring

from ...golden.zo.tile import TileSpec
from ..ports import elements, members
from ..rng.pezo import Pezo
from .perturb import Perturb


class Tile(wiring.Component):
    """Perturb weights with generated numbers, a word a cycle except while the generator replays.

    Each weight word takes one generator word.
    """

    def __init__(self, spec: TileSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.pezo = pezo = Pezo(self.spec.pezo)
        m.submodules.perturb = perturb = Perturb(self.spec.perturb)
        wiring.connect(m, wiring.flipped(self.load), pezo.load)
        word, lanes = self.i.payload, perturb.i.payload
        again = word.user[2]
        m.d.comb += [
            self.scan.eq(pezo.scan),
            perturb.i.valid.eq(self.i.valid & pezo.o.valid),
            self.i.ready.eq(perturb.i.ready & pezo.o.valid),
            pezo.o.ready.eq(perturb.i.ready & self.i.valid),
            pezo.replay.bit.eq(word.last & again),
            pezo.mark.bit.eq(word.last & ~again),
            lanes.weight.eq(word.weight),
            lanes.sign.eq(word.user[:2]),
            lanes.tag.eq(word.last),
            self.o.valid.eq(perturb.o.valid),
            perturb.o.ready.eq(self.o.ready),
            self.o.payload.weight.eq(perturb.o.payload.weight),
            self.o.payload.last.eq(perturb.o.payload.tag),
        ]
        numbers = {item.name: item for item in self.spec.pezo.streams()["o"].fields}
        used = {item.name: item for item in self.spec.perturb.streams()["i"].fields}
        drawn = elements(pezo.o.payload.number, numbers["number"])[: self.spec.perturb.used]
        for lane, number in zip(elements(lanes.number, used["number"]), drawn, strict=True):
            m.d.comb += lane.eq(number)
        if "scale" in used:
            m.d.comb += lanes.scale.eq(pezo.o.payload.scale)
        return m
