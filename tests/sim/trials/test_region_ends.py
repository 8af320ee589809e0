"""Regions that cross the end of the address bits: the command is refused or ends there; no address wraps to byte 0."""

from dataclasses import dataclass

import pytest

from fabtune.boards.host.driver import Core, CoreError
from fabtune.golden.axi.bus import BEAT
from fabtune.sim.compiled.comparison import compiled_core
from fabtune.sim.compiled.device import SimulatedBuffer, SimulatedDevice
from fabtune.sim.compiled.session import LARGEST_MEMORY
from fabtune.sim.trials.jobs import short_jobs

from ...small_cores import instantft, zostream, zotrain

CORES = {"instantft": instantft, "zotrain": zotrain, "zostream": zostream}


@dataclass
class CutBuffer(SimulatedBuffer):
    """Buffer whose memory ends before the last beat."""

    def flush(self):
        self.device.put(self.device_address, self.array[:-BEAT])

    def invalidate(self):
        self.array[:-BEAT] = self.device.get(self.device_address, self.array.size - BEAT)


class EndDevice(SimulatedDevice):
    """Device with a buffer that crosses the end of the memory, and of the address bits, by a beat."""

    def __init__(self, program, number):
        super().__init__(program)
        self.number = number

    def allocate(self, size):
        if len(self.buffers) != self.number:
            return super().allocate(size)
        whole = -(-size // BEAT) * BEAT
        cut = CutBuffer(self, LARGEST_MEMORY - whole + BEAT, super().allocate(size).array)
        if whole > BEAT:
            self._session.region(cut.device_address, whole - BEAT)
        self.buffers[-1] = cut
        return cut


def ends(name, job, monkeypatch):
    """Error and address at the end of the job, by index of the buffer that crosses the end."""
    monkeypatch.setattr(Core, "allocate", lambda core, size, name="": core._memory.allocate(size))
    program, made, found = compiled_core(CORES[name]()), short_jobs(CORES[name]())[job], {}
    calm = SimulatedDevice(program)
    driver = made.driver(calm)
    made.load(driver)
    assert made.differences(driver, calm) == []
    for number in range(len(calm.buffers)):
        device = EndDevice(program, number)
        try:
            driver = made.driver(device)
            made.load(driver)
            made.differences(driver, device)
            found[number] = "right"
        except CoreError as error:
            at_end = error.address in (LARGEST_MEMORY, device.buffers[number].device_address)
            found[number] = error.name if at_end else f"{error.name} at {error.address:#x}"
        # accesses outside buffers, and to byte 0, get an error response
        assert device.bad_responses == []
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", CORES)
def test_no_region_wraps(name, monkeypatch):
    found = ends(name, "base" if name != "zostream" else "perceptron", monkeypatch)
    told = [*found.values()]
    assert {*told} - {"right"} == {"bad_address", "read_decerr", "write_decerr"}
    # fillers of a sample schedule's last step are not read
    assert told.count("right") <= 1, found
