"""Reserved words of Verilog, SystemVerilog and VHDL, and unique names.

Yosys' child process imports this module; importing Amaranth here would take longer than most passes.
"""

from __future__ import annotations

import itertools

_WORDS = """
    accept_on alias always always_comb always_ff always_latch and assert assign assume automatic before begin
    bind bins binsof bit break buf bufif0 bufif1 byte case casex casez cell chandle checker class clocking cmos
    config const constraint context continue cover covergroup coverpoint cross deassign default defparam design
    disable dist do edge else end endcase endchecker endclass endclocking endconfig endfunction endgenerate
    endgroup endinterface endmodule endpackage endprimitive endprogram endproperty endsequence endspecify
    endtable endtask enum event eventually expect export extends extern final first_match for force foreach
    forever fork forkjoin function generate genvar global highz0 highz1 if iff ifnone ignore_bins illegal_bins
    implements implies import incdir include initial inout input inside instance int integer interconnect
    interface intersect join join_any join_none large let liblist library local localparam logic longint
    macromodule matches medium modport module nand negedge nettype new nexttime nmos nor noshowcancelled not
    notif0 notif1 null or output package packed parameter pmos posedge primitive priority program property
    protected pull0 pull1 pulldown pullup pulsestyle_ondetect pulsestyle_onevent pure rand randc randcase
    randsequence rcmos real realtime ref reg reject_on release repeat restrict return rnmos rpmos rtran rtranif0
    rtranif1 s_always s_eventually s_nexttime s_until s_until_with scalared sequence shortint shortreal
    showcancelled signed small soft solve specify specparam static string strong strong0 strong1 struct super
    supply0 supply1 sync_accept_on sync_reject_on table tagged task this throughout time timeprecision timeunit
    tran tranif0 tranif1 tri tri0 tri1 triand trior trireg type typedef union unique unique0 unsigned until
    until_with untyped use uwire var vectored virtual void wait wait_order wand weak weak0 weak1 while wildcard
    wire with within wor xnor xor
"""
RESERVED = frozenset(_WORDS.split())
"""Keywords of IEEE 1800-2017, of which IEEE 1364-2005 has a part."""
_VHDL = """
    abs access after alias all and architecture array assert assume assume_guarantee attribute begin block body
    buffer bus case component configuration constant context cover default disconnect downto else elsif end
    entity exit fairness file for force function generate generic group guarded if impure in inertial inout is
    label library linkage literal loop map mod nand new next nor not null of on open or others out package
    parameter port postponed procedure process property protected pure range record register reject release rem
    report restrict restrict_guarantee return rol ror select sequence severity shared signal sla sll sra srl
    strong subtype then to transport type unaffected units until use variable vmode vprop vunit wait when while
    with xnor xor
"""
VHDL_RESERVED = frozenset(_VHDL.split())
"""Keywords of IEEE 1076-2008, which has no upper and lower case."""


def keyword_of(name: str) -> str | None:
    """Language in which the name is a keyword, or None."""
    return "Verilog" if name in RESERVED else "VHDL" if name.lower() in VHDL_RESERVED else None


def add_name(assigned: set[str], name: str) -> str:
    """Add a name to a module's names, with a number as suffix if it is taken; returns the unique name."""
    if name in assigned:
        name = next(candidate for number in itertools.count(1) if (candidate := f"{name}_{number}") not in assigned)
    assigned.add(name)
    return name
