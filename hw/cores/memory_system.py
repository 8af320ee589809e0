"""The memories around the engine: ports to the one outside, the cache on the chip, and who asks them for what."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Mux, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.axi_read import AxiReadSpec
from ...golden.axi.axi_write import AxiWriteSpec
from ...golden.cores.instantft_registers import Error
from ..axi.arbiter import BEATS, ReadArbiter, WriteArbiter
from ..axi.axi_read import AxiRead
from ..axi.axi_write import AxiWrite
from ..axi.bursts import command
from ..axi.bus import Read, Write
from ..axi.cache_ram import CacheRam
from ..primitives.fifo import Fifo

READS = ("order", "image", "samples", "records", "parameters")
WRITES = ("records", "logits", "parameters")


def buses(ports: int) -> dict[str, wiring.Member]:
    """The ports to the memory outside."""
    both = {"reader": Read(), "writer": Write()}
    return {f"{name}{port}": Out(bus) for port in range(ports) for name, bus in both.items()}


class Memories(wiring.Component):
    """Records have a port of their own, where there are two, or a memory on the chip; all else shares the first port.

    Parameters
    ----------
    ports : int
        To the memory outside.
    store : int
        Beats of the cache on the chip; 0 where it is outside.

    Attributes
    ----------
    NAME_read, NAME_beats, NAME_write, NAME_data
        Commands and beats of each of `READS` and `WRITES`.
    reader0, writer0, reader1, writer1
        The ports.
    settled
        All that was given to be written has arrived.
    stop, quiet
        Stop what goes outside; nothing is on its way there any more.
    failed, error, error_address
        The first bad response.
    """

    def __init__(self, ports: int, store: int) -> None:
        self.ports, self.store = ports, store
        members = {f"{name}_read": In(command(32)) for name in READS}
        members |= {f"{name}_beats": Out(BEATS) for name in READS}
        members |= {f"{name}_write": In(command(32)) for name in WRITES}
        members |= {f"{name}_data": In(BEATS) for name in WRITES}
        super().__init__(
            {
                **members,
                **buses(ports),
                "stop": In(1),
                **dict.fromkeys(("settled", "quiet", "failed"), Out(1)),
                "error": Out(4),
                "error_address": Out(32),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        apart = self.ports > 1 or self.store > 0
        shared = [[name for name in names if not apart or name != "records"] for names in (READS, WRITES)]
        outside = [shared] + [[["records"], ["records"]]] * (self.ports - 1)
        settled, quiet = [], []
        for port, (reads, writes) in enumerate(outside):
            m.submodules[f"read{port}"] = read = AxiRead(AxiReadSpec())
            m.submodules[f"write{port}"] = write = AxiWrite(AxiWriteSpec())
            wiring.connect(m, read.bus, wiring.flipped(getattr(self, f"reader{port}")))
            wiring.connect(m, write.bus, wiring.flipped(getattr(self, f"writer{port}")))
            m.d.comb += [read.stop.eq(self.stop), write.stop.eq(self.stop)]
            self._reads(m, f"readers{port}", reads, read.command, read.o)
            done = self._writes(m, port, writes, write)
            settled.append(done & write.idle)
            quiet += [read.idle, write.idle]
            self._failures(m, read, write)
        if self.store:
            m.submodules.store = store = CacheRam(self.store)
            m.submodules.keep = keep = WriteArbiter(["records"])
            self._reads(m, "kept", ["records"], store.read, store.o)
            self._connect(m, keep, ["records"])
            wiring.connect(m, keep.command, store.write)
            wiring.connect(m, keep.o, store.i)
            settled.append(keep.idle & store.idle)
        m.d.comb += self.quiet.eq(Cat(quiet).all())
        m.d.sync += self.settled.eq(Cat(settled).all())
        return m

    def _reads(
        self, m: Module, name: str, names: Sequence[str], commands: stream.Interface, beats: stream.Interface
    ) -> None:
        m.submodules[name] = readers = ReadArbiter(names)
        for asks in names:
            wiring.connect(m, wiring.flipped(getattr(self, f"{asks}_read")), getattr(readers, f"{asks}_read"))
            wiring.connect(m, getattr(readers, f"{asks}_beats"), wiring.flipped(getattr(self, f"{asks}_beats")))
        wiring.connect(m, readers.command, commands)
        wiring.connect(m, beats, readers.i)

    def _connect(self, m: Module, writers: WriteArbiter, names: Sequence[str]) -> None:
        for asks in names:
            for what in ("write", "data"):
                wiring.connect(m, wiring.flipped(getattr(self, f"{asks}_{what}")), getattr(writers, f"{asks}_{what}"))

    def _writes(self, m: Module, port: int, names: Sequence[str], write: AxiWrite) -> Value:
        """Short queues before a writer, so that nobody's ready depends on another's; whether they are empty."""
        m.submodules[f"writers{port}"] = writers = WriteArbiter(names)
        m.submodules[f"commands{port}"] = commands = Fifo(write.command.payload.shape(), 4)
        m.submodules[f"beats{port}"] = beats = Fifo(128, 4)
        self._connect(m, writers, names)
        wiring.connect(m, writers.command, commands.i)
        wiring.connect(m, writers.o, beats.i)
        wiring.connect(m, commands.o, write.command)
        m.d.comb += [
            write.i.valid.eq(beats.o.valid),
            write.i.payload.data.eq(beats.o.payload),
            beats.o.ready.eq(write.i.ready),
        ]
        return writers.idle & commands.empty & beats.empty

    def _failures(self, m: Module, read: AxiRead, write: AxiWrite) -> None:
        """Held from the first on: both say what they met first, until reset."""
        pairs = (
            (write, Error.WRITE_DECERR, Error.WRITE_SLVERR),
            (read, Error.READ_DECERR, Error.READ_SLVERR),
        )
        for manager, outside, refused in pairs:
            with m.If(manager.error.any() & ~self.failed):
                m.d.sync += [
                    self.failed.eq(1),
                    self.error.eq(Mux(manager.error[0], outside, refused)),
                    self.error_address.eq(manager.error_address),
                ]
