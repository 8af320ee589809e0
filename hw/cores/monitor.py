"""Monitor of updates: what a core trains, as it is written."""

from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from ...golden.axi.bus import BEAT


class UpdateMonitor(wiring.Signature):
    """Updates of what a core trains as they are written, for a simulation or a logic analyser.

    Parameters
    ----------
    beats : int
        Most beats that change in a cycle.

    Members
    -------
    valid : Out(beats)
        Which beats of the image change in this cycle: `beat`, and those behind it.
    beat : Out(16)
        The first one's number.
    data : Out(128 * beats)
        Their new contents.
    done : Out(1)
        The update of a batch or of a step is complete; one cycle.
    """

    def __init__(self, beats: int) -> None:
        super().__init__({"valid": Out(beats), "beat": Out(16), "data": Out(8 * BEAT * beats), "done": Out(1)})


def monitor_ports(beats: int) -> dict[str, wiring.Member]:
    """Members of a core with a monitor: those of `UpdateMonitor`, named ``monitor_NAME``."""
    return {f"monitor_{name}": member for name, member in UpdateMonitor(beats).members.items()}
