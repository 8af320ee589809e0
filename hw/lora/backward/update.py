"""Updater: parameters - learning rate * gradient, a beat of eight a cycle."""

from amaranth.hdl import Module, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ....golden.fixed import Q4_12
from ....golden.lora.adapters import BATCH_GRADIENT, NOISE_BITS
from ....golden.nn.arithmetic.forward import PRODUCT_FRACTION
from ...nn.interfaces import PARAMETER
from ...primitives.pipeline import Pipeline
from ...primitives.rounding import NoiseSaturate, RoundSaturate
from ..engine_interfaces import VALUES
from ..job_interfaces import RATE

OPERAND, PRODUCT, STEP = 1, 1, 1
"""Registers of the rounded gradient, of its product with the rate, and of the difference."""


class Updater(wiring.Component):
    """Rounds the gradients, multiplies by the rate, subtracts, rounds the parameters; no handshake.

    Parameters
    ----------
    width : int
        Bits of a gradient's sum, with 28 fraction bits.
    noise_bits : int
        Bits of the random numbers of stochastic rounding; 0: round to nearest.

    Attributes
    ----------
    valid : In(1)
        `sums` and `parameters` are valid.
    sums : In, array of 8 integers of `width` bits, 28 fraction bits
        Gradients.
    parameters : In, array of 8 Q4.12
        Parameters before the update.
    rate : In, `RATE` bits
        Learning rate, 20 fraction bits; stable for `LATENCY` cycles before and after a beat.
    done : Out(1)
        `o` is valid: `LATENCY` cycles after `valid`.
    o : Out, array of 8 Q4.12
        Parameters after the update.
    ask : Out(1), with `noise_bits`
        `noise` is taken in this cycle.
    noise : In, array of 8 integers of `noise_bits` bits, with `noise_bits`
        For the beat of `LATENCY` - `RoundSaturate.LATENCY` cycles ago.
    clipped : Out(range(17))
        Gradients and parameters clipped in the previous cycle.
    """

    LATENCY = RoundSaturate.LATENCY + OPERAND + PRODUCT + STEP + RoundSaturate.LATENCY

    def __init__(self, width: int, noise_bits: int = 0) -> None:
        self.width, self.noise_bits = width, noise_bits
        beat = data.ArrayLayout(PARAMETER, VALUES)
        random = {"ask": Out(1), "noise": In(data.ArrayLayout(unsigned(noise_bits), VALUES))}
        super().__init__(
            {
                "valid": In(1),
                "sums": In(data.ArrayLayout(signed(width), VALUES)),
                "parameters": In(beat),
                "rate": In(RATE),
                "done": Out(1),
                "o": Out(beat),
                **(random if noise_bits else {}),
                "clipped": Out(range(2 * VALUES + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rate = Signal(signed(len(self.rate) + 1), reset_less=True)
        # negated: a DSP adds its C operand to the product
        m.d.sync += rate.eq(-self.rate)
        stages = {
            "sums": 0,
            "gradients": RoundSaturate.LATENCY,
            "operands": OPERAND,
            "products": PRODUCT,
            "steps": STEP,
        }
        pipeline = Pipeline(m, stages | {"parameters": RoundSaturate.LATENCY})
        old = pipeline.place("sums", self.parameters, "old", reset_less=True).at("products")
        rounded = pipeline.place("sums", self.valid, "rounded").at("gradients")
        m.d.comb += self.done.eq(pipeline.place("gradients", rounded, "done").at("parameters"))
        if self.noise_bits:
            m.d.comb += self.ask.eq(pipeline.place("gradients", rounded, "ask").at("steps"))
        clipped_gradients, clipped = [], []
        for lane in range(VALUES):
            m.submodules[f"gradient{lane}"] = gradient = RoundSaturate(
                self.width, PRODUCT_FRACTION - BATCH_GRADIENT.fraction, BATCH_GRADIENT
            )
            m.d.comb += gradient.i.eq(self.sums[lane])
            operand = Signal(signed(BATCH_GRADIENT.width), name=f"operand{lane}", reset_less=True)
            product = Signal(signed(BATCH_GRADIENT.width + len(rate)), name=f"step{lane}", reset_less=True)
            width = max(PARAMETER.width + NOISE_BITS, len(product)) + 1
            stepped = Signal(signed(width), name=f"stepped{lane}", reset_less=True)
            m.d.sync += [
                operand.eq(gradient.o),
                product.eq(operand * rate),
                stepped.eq((old[lane] << NOISE_BITS) + product),
            ]
            parameter = self._rounding(m, len(stepped), lane)
            m.submodules[f"parameter{lane}"] = parameter
            m.d.comb += [parameter.i.eq(stepped), self.o[lane].eq(parameter.o)]
            clipped_gradients.append(gradient.clipped & rounded)
            clipped.append(parameter.clipped & self.done)
        count = Signal.like(self.clipped)
        m.d.comb += count.eq(sum(clipped_gradients[1:], clipped_gradients[0]) + sum(clipped[1:], clipped[0]))
        m.d.sync += self.clipped.eq(count)
        return m

    def _rounding(self, m: Module, width: int, lane: int) -> RoundSaturate | NoiseSaturate:
        if not self.noise_bits:
            return RoundSaturate(width, NOISE_BITS, Q4_12)
        rounding = NoiseSaturate(width, NOISE_BITS, self.noise_bits, Q4_12)
        m.d.comb += rounding.noise.eq(self.noise[lane])
        return rounding
