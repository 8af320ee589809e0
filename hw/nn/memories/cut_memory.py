"""Cut memory: recorded outputs before a cut, for passes of the later stages."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Member, Out

from ....golden.nn.array.mapping import Mapping
from ....golden.nn.array.memories import cut_memory
from ...primitives.ram import ram
from ...primitives.registers import data_register
from ..interfaces import CutRow, CutRows


class OwnRows:
    """Rows of a cut memory in a private memory of `depth` rows; adds no `ports`."""

    def __init__(self, mapping: Mapping, depth: int) -> None:
        self.mapping, self.depth = mapping, depth
        self.ports: dict[str, Member] = {}

    def port(self, m: Module, cut: wiring.Component, platform: object) -> wiring.PureInterface:
        """Add the memory; returns its port."""
        rows = CutRows(self.mapping, self.depth).create(path=("rows",))
        m.submodules.rows = kept = ram(platform, cut_memory(self.mapping, self.depth), CutRow(self.mapping))
        into, port = kept.write_port(), kept.read_port()
        m.d.comb += [
            into.en.eq(rows.write),
            into.addr.eq(rows.address),
            into.data.eq(rows.data),
            port.en.eq(rows.read),
            port.addr.eq(rows.address),
            rows.row.eq(port.data),
        ]
        return rows


class SharedRows:
    """Rows of a cut memory in an external memory of `depth` rows, shared with another component.

    Attributes
    ----------
    ports : dict of str to Member
        Ports added to the cut memory:

        rows : Out, `CutRows`
            The memory.
    """

    def __init__(self, mapping: Mapping, depth: int) -> None:
        self.depth = depth
        self.ports: dict[str, Member] = {"rows": Out(CutRows(mapping, depth))}

    def port(self, m: Module, cut: wiring.Component, platform: object) -> wiring.PureInterface:
        """Port of the memory."""
        return cut.rows


class CutMemory(wiring.Component):
    """Record outputs of a pass's last stage during their write to the activation memory, and write them again.

    Passes are recorded in order, both perturbation signs of each, and restored repeatedly in the same order. The
    recorded address includes the sign's region.

    Parameters
    ----------
    mapping : Mapping
        The network.
    rows : OwnRows or SharedRows
        The memory; its ports are also ports of this component.

    Attributes
    ----------
    cut : In, range(stages)
        First stage after the cut, not 0; constant while passes are recorded and restored.
    recording : In, 1
        Record outputs; rises before the first pass, which starts at row 0.
    begin, final : In, 1
        A stage begins; it is the pass's last.
    write : In, 1
        Outputs of all columns, of any stage.
    mask, address, values : In, a bit for each column, `activation_address`, array of columns Q8.16
        Columns with an output, address of the first column's, values.
    restart : In, 1
        One-cycle pulse while no pass runs: restore from the first pass.
    taken : In, 1
        A pass begins with the restored outputs.
    free : In, 1
        One-cycle pulse a sign: the present pass has read its inputs, and another pass follows; restore the sign's next
        inputs.
    restored : Out, 1
        Inputs of both signs of a pass are restored; held until `taken`.
    ready : In, 1
        The activation memory takes the outputs in this cycle.
    o_valid : Out, 1
        Restored outputs are valid.
    o_mask, o_address, o_values : Out
        Restored outputs, in the formats of `mask`, `address`, `values`.
    """

    def __init__(self, mapping: Mapping, rows: OwnRows | SharedRows) -> None:
        self.mapping, self.kept = mapping, rows
        outputs = {name: field.shape for name, field in CutRow(mapping)}
        inputs = ("recording", "begin", "final", "write", "restart", "taken", "free", "ready")
        super().__init__(
            {
                "cut": In(range(len(mapping.stages))),
                **dict.fromkeys(inputs, In(1)),
                **{name: In(form) for name, form in outputs.items()},
                **dict.fromkeys(("restored", "o_valid"), Out(1)),
                **{f"o_{name}": Out(form) for name, form in outputs.items()},
                **rows.ports,
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rows, depth = self.kept.port(m, self, platform), self.kept.depth
        # recording: a register, as the path of the outputs is long
        keeping, written = Signal(), Signal(range(depth), reset_less=True)
        with m.If(self.begin):
            m.d.sync += keeping.eq(self.recording & self.final)
        with m.If(~self.recording):
            m.d.sync += written.eq(0)
        with m.Elif(rows.write):
            m.d.sync += written.eq(written + 1)
        kept = data_register(m, rows.data, "row_data")
        m.d.sync += [
            rows.write.eq(self.write & keeping),
            *(kept[name].eq(getattr(self, name)) for name in ("mask", "address", "values")),
        ]

        # restoring: a row a cycle, while the activation memory is free
        sizes = [stage.groups * stage.cells for stage in self.mapping.stages]
        size, left = (Signal(range(max(sizes) + 1), name=name, reset_less=True) for name in ("size", "left"))
        at_row = Signal(range(depth), reset_less=True)
        with m.Switch(self.cut):
            for cut in range(1, len(sizes)):
                with m.Case(cut):
                    m.d.sync += size.eq(sizes[cut - 1])
        offered, fetching, advance = self.o_valid, Signal(), Signal()
        # signs to restore, and restored signs
        wanted_sides, total_restored, fetches = Signal(2), Signal(2), Signal()
        m.d.comb += [
            advance.eq(~offered | self.ready),
            rows.address.eq(Mux(rows.write, written, at_row)),
            rows.read.eq(advance & ~rows.write),
            *(getattr(self, f"o_{name}").eq(rows.row[name]) for name in ("mask", "address", "values")),
            self.restored.eq(total_restored[1]),
        ]
        m.d.sync += wanted_sides.eq(wanted_sides + self.free - fetches)
        with m.If(advance):
            m.d.sync += [offered.eq(fetching), at_row.eq(at_row + fetching), left.eq(left - fetching)]
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += left.eq(size)
                m.d.comb += fetches.eq(wanted_sides.any())
                with m.If(self.restart):
                    m.d.sync += [at_row.eq(0), wanted_sides.eq(2)]
                with m.Elif(fetches):
                    m.next = "FETCH"
            with m.State("FETCH"):
                m.d.comb += fetching.eq(1)
                with m.If(advance & (left == 1)):
                    m.next = "LAST"
            with m.State("LAST"), m.If(self.ready):
                m.d.sync += total_restored.eq(total_restored + 1)
                m.next = "IDLE"
        with m.If(self.taken):
            m.d.sync += total_restored.eq(0)
        return m
