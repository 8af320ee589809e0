"""Samples of a core's monitor during the self-test, and the CSV of Vivado's logic analyser."""

import re

from fabtune.boards.host.driver import Core
from fabtune.boards.packaging import selftest_of
from fabtune.golden.axi.bus import BEAT
from fabtune.sim.compiled.build import build
from fabtune.sim.compiled.device import SimulatedDevice

WIRES = ("valid", "beat", "data", "done")
BEATS = 8
"""Beats per cycle of a small core's monitor."""
MARKS = ["Sample in Buffer", "Sample in Window", "TRIGGER"]


def samples(spec, verilog, folder):
    """Values of the monitor's wires in each cycle of a self-test on this Verilog, and their widths."""
    device = SimulatedDevice(build(verilog, spec.name, spec.memory_ports, waves="vcd"), limit=3_000_000)
    file = folder / "selftest.vcd"
    device.waves(file, 5000)
    selftest_of(spec).run(Core.on(spec, device))
    device.end_waves()
    codes, widths = {}, {}
    values, found, clock, scopes = {}, [], None, 0
    with file.open() as lines:
        for line in lines:
            scopes += "$scope" in line
            # only the pins: inner wires have the same names
            if scopes == 1 and (declared := re.match(r"\s+\$var wire (\d+) (\S+) (?:(aclk)|monitor_(\w+)) ", line)):
                if declared[3]:
                    clock = declared[2]
                else:
                    codes[declared[2]], widths[declared[4]] = declared[4], int(declared[1])
            elif line.startswith("b"):
                value, code = line[1:].split()
                values[codes.get(code)] = int(value, 2)
            elif line[0] in "01":
                if line[1:-1] == clock and line[0] == "1":
                    # a rising edge captures the values before the edge
                    found.append(tuple(values.get(wire, 0) for wire in WIRES))
                values[codes.get(line[1:-1])] = int(line[0])
    assert set(widths) == set(spec.monitored)
    return found, widths


def stored(sampled):
    """Samples that the analyser stores: with a write, or with a complete update."""
    return [one for one in sampled if one[0] or one[3]]


def written(images):
    """Stored samples made from the images after each update; a core writes whole images, the first beat first with
    another value.
    """
    found = []
    for image in images:
        beats = [int.from_bytes(beat.tobytes(), "little") for beat in image.reshape(-1, BEAT)]
        rows = [beats[at : at + BEATS] for at in range(0, len(beats), BEATS)]
        masks = [(1 << len(row)) - 1 for row in rows]
        data = [sum(beat << 8 * BEAT * at for at, beat in enumerate(row)) for row in rows]
        found.append((masks[0], 0, data[0] ^ 0x5A, 0))
        found += [(mask, BEATS * number, word, 0) for number, (mask, word) in enumerate(zip(masks, data, strict=True))]
        found.append((0, 0, 0, 1))
    return found


def widths_of(emitted):
    """Widths of the monitor's wires of an emitted core."""
    widths = {pin.name.removeprefix("monitor_"): pin.width for pin in emitted.pins if pin.name.startswith("monitor_")}
    assert set(widths) == set(WIRES)
    assert widths["data"] == 8 * BEAT * BEATS
    return widths


def vivado_csv(path, sampled, widths, prefix="system_i/core_", radix=True, gap=False):
    """Samples in the format of ``write_hw_ila_data -csv_file``."""
    others = [wire for wire in widths if wire not in WIRES]  # of which a comparison reads nothing
    wires = (*WIRES, *others)
    probes = [f"{prefix}monitor_{wire}" + (f"[{widths[wire] - 1}:0]" if widths[wire] > 1 else "") for wire in wires]
    marks = [*MARKS, *["GAP"] * gap]
    rows = [",".join([*marks, *probes])]
    if radix:
        rows.append(",".join(["Radix - UNSIGNED", *["UNSIGNED"] * (len(marks) - 1), *["HEX"] * len(wires)]))
    for number, one in enumerate(sampled):
        values = zip(wires, (*one, *(0 for _ in others)), strict=True)
        digits = [f"{value:0{-(-widths[wire] // 4)}x}" for wire, value in values]
        rows.append(",".join([str(number), str(number), str(int(number == 0)), *["0"] * gap, *digits]))
    path.write_text("\n".join(rows) + "\n")
    return path
