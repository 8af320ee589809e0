"""Parameter transfer: loads frozen parameters and adapters into the engine, saves adapters."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....golden.axi.bus import ADDRESS_BITS
from ....golden.lora.mapping import AdapterMapping
from ...axi.memory_port import ReadPort, WritePort
from ...primitives.registers import data_register
from ..engine_interfaces import AdapterRead, ParameterKind, ParameterWrite, parameter_beats

WEIGHT, BIAS, A, B = ParameterKind


class ParameterTransfer(wiring.Component):
    """Loads a beat a cycle; saves one in `AdapterRead.LATENCY` + 1 cycles.

    Parameters
    ----------
    mapping : AdapterMapping
    address : int
        Bits of a byte address.

    Attributes
    ----------
    load_frozen, load_adapters, save_adapters : In(1)
        Begin a transfer; one cycle, while the core is idle.
    address : In, `address` bits
        Byte address of the image; stable until `done`.
    clearing : In(1)
        The engine clears its activations; `done` waits for the end.
    done : Out(1)
        All beats are written to the engine, or given to the memory; one cycle.
    read : Out, `ReadPort`
        Reads of an image; always ready for beats.
    write : Out, `WritePort`
        Writes of the adapters' image.
    parameters : Out, `ParameterWrite`
        Beats to the engine, with a cycle of latency.
    adapters : Out, `AdapterRead`
    """

    def __init__(self, mapping: AdapterMapping, address: int = ADDRESS_BITS) -> None:
        self.mapping = mapping
        super().__init__(
            {
                **dict.fromkeys(("load_frozen", "load_adapters", "save_adapters"), In(1)),
                "address": In(address),
                "clearing": In(1),
                "done": Out(1),
                "read": Out(ReadPort(address)),
                "write": Out(WritePort(address)),
                "parameters": Out(ParameterWrite(mapping)),
                "adapters": Out(AdapterRead(mapping)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping = self.mapping
        address = Signal.like(self.parameters.address)
        remaining, pause = Signal(range(parameter_beats(mapping) + 1)), Signal(range(AdapterRead.LATENCY))
        read, write = self.read, self.write
        m.d.comb += [
            read.command.payload.address.eq(self.address),
            read.beats.ready.eq(1),
            write.command.payload.address.eq(self.address),
            write.command.payload.beats.eq(mapping.adapter_beats),
            self.adapters.address.eq(address),
            write.beats.payload.eq(self.adapters.beat),
        ]
        begin_load = self.load_frozen | self.load_adapters
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [address.eq(0), pause.eq(AdapterRead.LATENCY - 1)]
                with m.If(begin_load):
                    m.next = "READ"
                with m.If(self.save_adapters):
                    m.next = "WRITE"
            with m.State("READ"):
                m.d.comb += read.command.valid.eq(1)
                m.d.sync += remaining.eq(read.command.payload.beats)
                with m.If(read.command.ready):
                    m.next = "TAKE"
            with m.State("TAKE"), m.If(read.beats.valid):
                m.d.sync += remaining.eq(remaining - 1)
                with m.If(remaining == 1):
                    m.next = "SETTLE"
            with m.State("WRITE"):
                m.d.comb += write.command.valid.eq(1)
                m.d.sync += remaining.eq(mapping.adapter_beats)
                with m.If(write.command.ready):
                    m.next = "FETCH"
            with m.State("FETCH"):
                m.d.sync += pause.eq(pause - 1)
                with m.If(pause == 0):
                    m.next = "GIVE"
            with m.State("GIVE"):
                m.d.comb += write.beats.valid.eq(1)
                m.d.sync += pause.eq(AdapterRead.LATENCY - 1)
                with m.If(write.beats.ready):
                    m.d.sync += [address.eq(address + 1), remaining.eq(remaining - 1)]
                    m.next = "FETCH"
                    with m.If(remaining == 1):
                        m.next = "SETTLE"
            with m.State("SETTLE"), m.If(~self.clearing):
                m.d.comb += self.done.eq(1)
                m.next = "IDLE"
        self._load(m, begin_load, address)
        return m

    def _load(self, m: Module, begin: Value, address: Signal) -> None:
        """Route beats to their memory: weights, then biases; or A, then B."""
        mapping, beats = self.mapping, self.read.beats
        frozen, second = Signal(), Signal()
        border = Mux(frozen, mapping.forward.weight_words, mapping.adapter_rows) * mapping.forward.word_beats
        m.d.comb += self.read.command.payload.beats.eq(Mux(frozen, mapping.forward.frozen_beats, mapping.adapter_beats))
        with m.If(begin):
            m.d.sync += [second.eq(0), frozen.eq(self.load_frozen)]
        with m.Elif(beats.valid):
            m.d.sync += address.eq(address + 1)
            with m.If(~second & (address == border - 1)):
                m.d.sync += [address.eq(0), second.eq(1)]
        first, last = (Mux(frozen, *pair) for pair in ((WEIGHT, A), (BIAS, B)))
        m.d.sync += [
            self.parameters.kind.eq(Mux(beats.valid, Mux(second, last, first), 0)),
            data_register(m, self.parameters.address, "parameter_address").eq(address),
            data_register(m, self.parameters.beat, "parameter_beat").eq(beats.payload),
        ]
