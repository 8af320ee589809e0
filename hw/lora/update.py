"""Parameters less rate times gradient, a beat of eight a cycle."""

from amaranth.hdl import Module, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.fixed import Q4_12
from ...golden.lora.adapters import BATCH_GRADIENT, MAXIMUM_RATE, NOISE_BITS
from ...golden.nn.forward import PRODUCT_FRACTION
from ..nn.mac import PARAMETER
from ..primitives.pipeline import delayed
from ..primitives.rounding import RoundSaturate

VALUES = 8
"""Of a beat."""
RATE = unsigned(MAXIMUM_RATE.bit_length())


class Updater(wiring.Component):
    """Fixed latency, no handshake.

    Parameters
    ----------
    width : int
        Bits of a gradient's sum, 28 of them behind the point.

    Attributes
    ----------
    valid, sums, parameters
        A beat.
    rate
        Constant meanwhile.
    done, o
        The updated beat, `LATENCY` cycles later.
    clipped
        How many values were clipped in this cycle, of gradients or parameters.
    """

    LATENCY = 3 + 2 + 1 + 3

    def __init__(self, width: int) -> None:
        self.width = width
        beat = data.ArrayLayout(PARAMETER, VALUES)
        super().__init__(
            {
                "valid": In(1),
                "sums": In(data.ArrayLayout(signed(width), VALUES)),
                "parameters": In(beat),
                "rate": In(RATE),
                "done": Out(1),
                "o": Out(beat),
                "clipped": Out(range(2 * VALUES + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        found = RoundSaturate.LATENCY
        rate = Signal(signed(len(self.rate) + 1))
        m.d.sync += rate.eq(self.rate)
        old = delayed(m, self.parameters, found + 2, "old")
        gradient_valid = delayed(m, self.valid, found, "gradient_valid")
        m.d.comb += self.done.eq(delayed(m, gradient_valid, self.LATENCY - found, "done"))
        clipped_gradients, clipped = [], []
        for at in range(VALUES):
            m.submodules[f"gradient{at}"] = gradient = RoundSaturate(
                self.width, PRODUCT_FRACTION - BATCH_GRADIENT.fraction, BATCH_GRADIENT
            )
            m.d.comb += gradient.i.eq(self.sums[at])
            operand = Signal(signed(BATCH_GRADIENT.width), name=f"operand{at}")
            product = Signal(signed(BATCH_GRADIENT.width + len(rate)), name=f"step{at}")
            stepped = Signal(signed(47), name=f"stepped{at}")
            m.d.sync += [
                operand.eq(gradient.o),
                product.eq(operand * rate),
                stepped.eq((old[at] << NOISE_BITS) - product),
            ]
            m.submodules[f"parameter{at}"] = parameter = RoundSaturate(len(stepped), NOISE_BITS, Q4_12)
            m.d.comb += [parameter.i.eq(stepped), self.o[at].eq(parameter.o)]
            clipped_gradients.append(gradient.clipped & gradient_valid)
            clipped.append(parameter.clipped & self.done)
        count = Signal.like(self.clipped)
        m.d.comb += count.eq(sum(clipped_gradients[1:], clipped_gradients[0]) + sum(clipped[1:], clipped[0]))
        m.d.sync += self.clipped.eq(count)
        return m
