"""The longest combinational paths of a netlist: in LUTs, in CARRY8 cells, and in nanoseconds of a delay model."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from ...golden.errors import UserError
from . import delays
from .netlist import Bit, Cell, Netlist
from .primitives import CARRIES, DSPS, FLIP_FLOPS, LUT_INPUTS, LUT_MEMORIES, WIDE_MUXES


@dataclass(frozen=True)
class TimingPath:
    """Slowest path by the delay model, between registers, memories and ports.

    Attributes
    ----------
    ns : float
        Clock-to-output, cells, nets and setup.
    start, end : str
        Names of the starting net, and of the net or cell at the end.
    through : dict of str to int
        Cells on the path by kind: exactly ``LUT`` (LUT memories included), ``MUXF``, ``CARRY8`` and ``DSP``.
    """

    ns: float
    start: str
    end: str
    through: dict[str, int]


class Source(NamedTuple):
    """A bit that an output depends on, with the cells and the delay in ps in between."""

    bit: Bit
    luts: int = 0
    carries: int = 0
    delay: int = 0
    wired: bool = False
    """Whether the connection is a dedicated wire of the slice or the column, without a net of the fabric."""


def _memory_address(cell: Cell, output: str) -> list[Bit]:
    """Address bits of a LUT memory's output; a constant address (a fixed shift register) gives no path."""
    if output in ("Q31", "Q15"):
        return []
    named = {"DPO": "DPRA", "O5": "I", "O6": "I"}.get(output, "A")
    prefix = f"ADDR{output[2]}" if output.startswith("DO") else named
    return [bit for port, bits in cell.inputs.items() if port.startswith(prefix) for bit in bits]


def _dsp_sources(cell: Cell) -> Iterator[Source]:
    """Inputs of a DSP without an output register that reach the output in the same cycle."""
    if delays.dsp_stages(cell, "P"):
        return
    open_ports = dict.fromkeys((port for port in ("C", "CARRYIN") if not delays.dsp_stages(cell, port)), delays.DSP_SUM)
    open_ports["PCIN"] = delays.DSP_SUM
    if not delays.dsp_stages(cell, "M"):
        open_ports |= dict.fromkeys((p for p in ("A", "B", "D") if not delays.dsp_stages(cell, p)), delays.DSP_PRODUCT)
        open_ports |= dict.fromkeys(("ACIN", "BCIN"), delays.DSP_PRODUCT)
    for port, delay in sorted(open_ports.items()):
        for bit in cell.inputs.get(port, ()):
            yield Source(bit, delay=delay, wired=port.endswith("CIN"))


def _carry_position(carries: Sequence[Cell]) -> dict[str, int]:
    """Index of each CARRY4 in the carry chain; indices 2n and 2n+1 share a CARRY8."""
    by_carry_in = {cell.inputs["CI"][0]: cell for cell in carries if "CI" in cell.inputs}
    driven = {cell.outputs["CO"][-1] for cell in carries if "CO" in cell.outputs}
    position: dict[str, int] = {}
    for head in carries:
        if not driven.isdisjoint(head.inputs.get("CI", ())):
            continue
        cell: Cell | None = head
        place = 0
        while cell is not None and cell.name not in position:
            position[cell.name] = place
            place += 1
            cell = by_carry_in.get(cell.outputs["CO"][-1]) if "CO" in cell.outputs else None
    return position


def _carry_arcs(cell: Cell, place: int) -> Iterator[tuple[int, list[Source]]]:
    shared = cell.kind == "CARRY4" and place % 2 == 1
    through = delays.CARRY if cell.kind == "CARRY4" else 2 * delays.CARRY
    carried = [Source(bit, carries=0 if shared else 1, delay=through, wired=True) for bit in cell.inputs.get("CI", ())]
    other = cell.inputs.get("CYINIT", ()) + cell.inputs.get("CI_TOP", ())
    carried_to_sum = [source._replace(delay=max(source.delay, delays.CARRY_SUM)) for source in carried]
    entered = [Source(bit, carries=1, delay=delays.CARRY_ENTRY) for bit in other]
    select, data, sums, carries = ((cell.inputs | cell.outputs).get(port, ()) for port in ("S", "DI", "O", "CO"))
    for bit in range(8):
        # the LUT that drives S is in the same slice
        selected = [Source(source, carries=1, delay=delays.CARRY_ENTRY, wired=True) for source in select[bit : bit + 1]]
        yield from ((net, carried_to_sum + entered + selected) for net in sums[bit : bit + 1] if isinstance(net, int))
        entered = entered + selected + [Source(b, carries=1, delay=delays.CARRY_ENTRY) for b in data[bit : bit + 1]]
        yield from ((net, carried + entered) for net in carries[bit : bit + 1] if isinstance(net, int))


def _arcs(cell: Cell, place: int, absorbed: bool) -> Iterator[tuple[int, list[Source]]]:
    if cell.kind in CARRIES:
        yield from _carry_arcs(cell, place)
        return
    for port, nets in cell.outputs.items():
        if cell.kind in WIDE_MUXES or (absorbed and cell.kind in LUT_INPUTS):
            sources = [
                Source(bit, delay=delays.WIDE_MUX, wired=name.startswith("I"))
                for name, bits in cell.inputs.items()
                for bit in bits
            ]
        elif absorbed:
            sources = [Source(bit, wired=True) for bit in cell.input_nets()]
        elif cell.kind in LUT_INPUTS or cell.kind == "INV":
            sources = [Source(bit, luts=1, delay=delays.LUT) for bit in cell.input_nets()]
        elif cell.kind in LUT_MEMORIES:
            sources = [Source(bit, luts=1, delay=delays.LUT) for bit in _memory_address(cell, port)]
        elif cell.kind in DSPS:
            sources = list(_dsp_sources(cell))
        else:
            return
        for net in nets:
            if isinstance(net, int):
                yield net, sources


@dataclass(frozen=True)
class _Graph:
    """Combinational arcs of a netlist, with drivers and readers of nets."""

    netlist: Netlist
    arcs: dict[int, list[Source]]
    owner: dict[int, Cell]
    readers: Counter[Bit]

    @classmethod
    def of(cls, netlist: Netlist, absorbed: frozenset[str]) -> _Graph:
        places = _carry_position([cell for cell in netlist.cells if cell.kind in CARRIES])
        readers: Counter[Bit] = Counter(chain(netlist.port_outputs, *map(Cell.input_nets, netlist.cells)))
        graph = cls(netlist, {}, {}, readers)
        for cell in netlist.cells:
            graph.owner.update((bit, cell) for bits in cell.outputs.values() for bit in bits if isinstance(bit, int))
            graph.arcs.update(_arcs(cell, places.get(cell.name, 0), cell.name in absorbed))
        return graph

    def name(self, bit: int) -> str:
        cell = self.owner.get(bit)
        name = self.netlist.names.get(bit, cell.name if cell else "")
        if not cell or cell.kind in FLIP_FLOPS or delays.launch(cell) is None:
            return name
        # a name made by Yosys holds the path of the source file
        return cell.kind if name.startswith("$") else f"{name} ({cell.kind})"

    def wire(self, source: Source) -> int:
        return 0 if source.wired else delays.net(self.readers[source.bit])


class _Arrival(NamedTuple):
    """Longest path to a bit: in LUTs, in carry cells and in ps, and the last step of the slowest path."""

    luts: int = 0
    carries: int = 0
    time: int = 0
    last: Source | None = None


_START = _Arrival()


def longest(netlist: Netlist, absorbed: frozenset[str]) -> tuple[int, int, TimingPath]:
    """Most LUTs on any path, most CARRY8 cells on any path, and the slowest path; possibly three different paths.

    ``absorbed`` names inverters that vanish into the driven cells, and LUTs that become multiplexers of a slice. A
    `UserError` for a combinational loop.
    """
    graph = _Graph.of(netlist, absorbed)
    arrivals = _arrivals(graph)
    luts = max((arrival.luts for arrival in arrivals.values()), default=0)
    carries = max((arrival.carries for arrival in arrivals.values()), default=0)
    return luts, carries, _slowest(graph, arrivals)


def _arrivals(graph: _Graph) -> dict[Bit, _Arrival]:
    arcs = graph.arcs
    clocked = ((bit, delays.launch(cell)) for bit, cell in graph.owner.items())
    arrivals: dict[Bit, _Arrival] = {bit: _Arrival(time=time) for bit, time in clocked if time is not None}
    waiting = {net: sum(source.bit in arcs for source in sources) for net, sources in arcs.items()}
    readers: dict[Bit, list[int]] = defaultdict(list)
    for net, sources in arcs.items():
        for source in sources:
            readers[source.bit].append(net)
    ready = [net for net, count in waiting.items() if count == 0]
    for net in ready:
        luts, carries, time, last = arrivals.get(net, _START)
        for source in arcs[net]:
            if isinstance(source.bit, int):
                before = arrivals.get(source.bit, _START)
                luts, carries = max(luts, before.luts + source.luts), max(carries, before.carries + source.carries)
                late = before.time + graph.wire(source) + source.delay
                if late > time:
                    time, last = late, source
        arrivals[net] = _Arrival(luts, carries, time, last)
        for reader in readers[net]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                ready.append(reader)
    if len(ready) < len(arcs):
        loop = _loop(arcs, set(arcs) - set(ready))
        name = next((graph.netlist.names[net] for net in loop if net in graph.netlist.names), graph.owner[loop[0]].name)
        raise UserError(f"combinational loop through {name!r} of {graph.netlist.top!r}: break it with a register")
    return arrivals


def _slowest(graph: _Graph, arrivals: Mapping[Bit, _Arrival]) -> TimingPath:
    ends = _ends(graph, arrivals)
    time, bit = max(((time, bit) for time, bit, _ in ends), default=(0, 0))
    takers = [taker for last, way, taker in ends if (last, way) == (time, bit)]
    end = max((_end_name(graph, taker, bit) for taker in takers), default="")
    through = dict.fromkeys(("LUT", "MUXF", "CARRY8", "DSP"), 0)
    while step := arrivals.get(bit, _START).last:
        kind = graph.owner[bit].kind
        through["LUT"] += step.luts
        through["CARRY8"] += step.carries
        through["DSP"] += kind in DSPS
        through["MUXF"] += kind in WIDE_MUXES or (kind in LUT_INPUTS and not step.luts)
        bit = int(step.bit)
    return TimingPath(round(time / 1000, 2), graph.name(bit), end, through)


def _ends(graph: _Graph, arrivals: Mapping[Bit, _Arrival]) -> list[tuple[int, int, Cell | None]]:
    """Time, last bit and capturing cell of each path end; None for a port."""
    ends: list[tuple[int, int, Cell | None]] = [
        (arrivals.get(bit, _START).time, bit, None) for bit in graph.netlist.port_outputs
    ]
    for cell in graph.netlist.cells:
        if cell.kind in LUT_INPUTS:  # most cells, which have no clock
            continue
        for port, bits in cell.inputs.items():
            if (setup := delays.capture(cell, port)) is not None:
                for bit in (bit for bit in bits if isinstance(bit, int)):
                    wire = 0 if port == "PCIN" else delays.net(graph.readers[bit])
                    ends.append((arrivals.get(bit, _START).time + wire + setup, bit, cell))
    return ends


def _end_name(graph: _Graph, taker: Cell | None, bit: int) -> str:
    return graph.name(bit) if taker is None else next(map(graph.name, taker.output_nets()), taker.name)


def _loop(arcs: dict[int, list[Source]], blocked: set[int]) -> list[int]:
    """Follow blocked nets backwards to a loop: each blocked net waits for another blocked net."""
    net, step = min(blocked), dict[int, int]()
    while net not in step:
        step[net] = len(step)
        net = min(source.bit for source in arcs[net] if isinstance(source.bit, int) and source.bit in blocked)
    return list(step)[step[net] :]
