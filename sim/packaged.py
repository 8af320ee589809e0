"""For the user's tests: a package's core, compiled from the package's Verilog, with the host driver."""

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
    """A package's core in the compiled simulator, with the host driver, as on a board.

    `test` is the package's self-test if the package is for simulation, else a random self-test.
    """

    spec: CoreSpec
    device: SimulatedDevice
    driver: Core
    test: SelfTest

    def selftest(self) -> list[str]:
        """Run the self-test; returns the names of its passed stages.

        Raises
        ------
        UserError
            For the first failing stage.
        """
        return self.test.run(self.driver)


def packaged_core(folder: Path | str, dram: Dram | None = None, seed: int = 0, limit: int = LIMIT) -> PackagedCore:
    """Compile a package's Verilog, cached, and attach the host driver.

    Parameters
    ----------
    folder : Path or str
        Output folder of `fabtune package`.
    dram : Dram, optional
        Memory behaviour: latency, stalls, row misses.
    seed : int
        Seed of random latencies and stalls.
    limit : int
        Cycle limit of a command.

    Raises
    ------
    UserError
        If the folder is not a core's package, or a tool is missing.
    """
    spec = load_core(folder)
    sources = sorted(Path(folder, "ip", "src").glob("*.v"))
    if not sources:
        raise UserError(f"{folder} has no Verilog in ip/src: give the folder of `fabtune package`")
    verilog = "\n".join(source.read_text(encoding="utf-8") for source in sources)
    device = SimulatedDevice(build(verilog, top_module(folder), spec.memory_ports), dram, seed, limit)
    driver = Core(spec.registers, device, device, device.interrupt, address=spec.address)
    has_test = (Path(folder) / PLACE).is_file()
    return PackagedCore(spec, device, driver, packaged_test(spec, Path(folder)) if has_test else selftest_of(spec))
