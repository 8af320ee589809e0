"""A core as a package has it, compiled from its Verilog, with the host driver on it: for tests of the user's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..boards.host.driver import Core
from ..boards.packaging import selftest_of
from ..boards.selftest.job import SelfTest
from ..boards.selftest.saved import PLACE, packaged_test
from ..golden.cores.core import CoreSpec
from ..golden.errors import UserError
from ..golden.spec_file import load_core, top_module
from .compiled.build import build
from .compiled.device import LIMIT, SimulatedDevice
from .compiled.session import Dram


@dataclass(frozen=True)
class PackagedCore:
    """Core of a package in the compiled simulation.

    Parameters
    ----------
    spec : CoreSpec
        From `spec.json`.
    device : SimulatedDevice
        Registers, memory and interrupt.
    driver : Core
        The host driver on them, as on a board.
    test : SelfTest
        That of the package where it is for simulation, else a random one.
    """

    spec: CoreSpec
    device: SimulatedDevice
    driver: Core
    test: SelfTest

    def selftest(self) -> list[str]:
        """Run the core's self-test; names of its stages, all of which have been right.

        Raises
        ------
        UserError
            Naming the first stage that is not right.
        """
        return self.test.run(self.driver)


def packaged_core(folder: Path | str, dram: Dram | None = None, seed: int = 0, limit: int = LIMIT) -> PackagedCore:
    """Compile the Verilog of a package, unless that was done before, and put the host driver on it.

    Parameters
    ----------
    folder : Path or str
        Folder of `fabtune package`.
    dram : Dram, optional
        Behaviour of the memory: latency, stalls, row misses.
    seed : int
        Seed of the memory's random latencies and of all stalls.
    limit : int
        Cycles that a command may take at most.

    Raises
    ------
    UserError
        If the folder is no package of a core, or a tool is missing.
    """
    spec = load_core(folder)
    sources = sorted(Path(folder, "ip", "src").glob("*.v"))
    if not sources:
        raise UserError(f"{folder} has no Verilog in ip/src: give the folder of `fabtune package`")
    verilog = "\n".join(source.read_text(encoding="utf-8") for source in sources)
    device = SimulatedDevice(build(verilog, top_module(folder), spec.memory_ports), dram, seed, limit)
    driver = Core(spec.registers, device, device, device.interrupt, address=spec.address)
    there = (Path(folder) / PLACE).is_file()
    return PackagedCore(spec, device, driver, packaged_test(spec, Path(folder)) if there else selftest_of(spec))
