"""Tcl scripts for Vivado: fixed bodies, before which `script` puts the settings."""

from __future__ import annotations

from collections.abc import Mapping


def script(body: str, settings: Mapping[str, str]) -> str:
    """Put settings as Tcl variables between a body's description and its commands; values must not hold braces."""
    head, _, rest = body.lstrip("\n").partition("\n\n")
    return f"{head}\n\n" + "".join(f"set {name} {{{value}}}\n" for name, value in settings.items()) + f"\n{rest}"


SYNTH_OOC = r"""
# Synthesise the block on its own, for its size and its speed; it needs no pins.
#   vivado -mode batch -source synth_ooc.tcl                     synthesis and logic optimisation
#   vivado -mode batch -source synth_ooc.tcl -tclargs route      up to the step `place` or `route`
# Reports go to reports/ beside this file. The exit status is 1 if the clock is not met after the last step.

set here [file dirname [file normalize [info script]]]
set steps {synth place route}
if {![info exists step]} { set step synth }
if {[info exists argv] && [llength $argv] == 1} { set step [lindex $argv 0] }
set last [lsearch -exact $steps $step]
if {$last < 0} {
    puts "ERROR: no step called $step: choose one of $steps"
    exit 1
}
set reports [file join $here reports]
file mkdir $reports

proc report {step} {
    global reports top
    report_utilization -file [file join $reports ${top}_${step}_utilization.rpt]
    report_timing_summary -file [file join $reports ${top}_${step}_timing.rpt]
}

create_project -in_memory -part $part
foreach file $sources { read_verilog [file join $here $file] }
read_xdc -mode out_of_context [file join $here $constraints]

synth_design -mode out_of_context -top $top -part $part
# the clock comes from a buffer outside the block; without a place for it Vivado takes the skew for zero
set buffer [lindex [lsort -dictionary [get_sites -quiet BUFGCE_X*]] 0]
if {$buffer ne ""} { set_property HD.CLK_SRC $buffer [get_ports $clock] }
opt_design
report synth
if {$last >= 1} {
    place_design
    phys_opt_design
    report place
}
if {$last >= 2} {
    route_design
    report route
}

# hold is the router's work: before it, a hold slack says nothing
set checks {setup}
if {$last >= 2} { lappend checks hold }
foreach check $checks {
    set path [lindex [get_timing_paths -quiet -$check -max_paths 1] 0]
    set slack {}
    if {$path ne ""} { set slack [get_property SLACK $path] }
    if {![string is double -strict $slack]} {
        puts "ERROR: no timed path after $step: is there a clock on $clock, and is anything left of $top?"
        exit 1
    }
    if {$slack < 0} {
        puts "ERROR: timing is not met after $step: $check slack $slack ns; see $reports"
        exit 1
    }
    puts "$top: $check slack $slack ns after $step"
}
"""

PROJECT = r"""
# Create a Vivado project for the board.
#   vivado -mode batch -source project.tcl                       in the folder vivado/ beside this file
#   vivado -mode batch -source project.tcl -tclargs FOLDER       elsewhere
# A core is put into a block design with the processor as its clock and reset; its registers, memory and
# interrupt are connected; connect its streams there.
# A plain block has more ports than the device has pins, so its project synthesises it out of context.

set here [file dirname [file normalize [info script]]]
set folder [file join $here vivado]
if {[info exists argv] && [llength $argv] == 1} { set folder [file normalize [lindex $argv 0]] }
if {[file exists $folder]} {
    puts "ERROR: $folder exists: delete it, or name another folder with -tclargs"
    exit 1
}
create_project ${top}_$board $folder -part $part

# the board files come with Vivado or from its store; an older or newer version of them serves as well
set installed [get_board_parts -quiet $board_part]
if {[llength $installed] == 0} {
    set family [join [lrange [split $board_part :] 0 2] :]
    set installed [lsort -dictionary [get_board_parts -quiet $family:*]]
}
if {[llength $installed] > 0} {
    set_property board_part [lindex $installed end] [current_project]
    if {$board_connections ne ""
        && [catch {set_property board_connections $board_connections [current_project]} problem]} {
        puts "WARNING: the carrier of $board is not set: $problem"
    }
} else {
    puts "WARNING: no board files for $board_part (install them from Vivado's store): only the part is set"
}

foreach file $sources { add_files -norecurse [file join $here $file] }
# the board's pins wait, disabled, for a top module that has ports of their names
add_files -fileset constrs_1 -norecurse [file join $here $pins]
set_property is_enabled false [get_files [file join $here $pins]]

if {$core} {
    update_compile_order -fileset sources_1
    create_bd_design system
    create_bd_cell -type module -reference $top core
    set processor [create_bd_cell -type ip -vlnv xilinx.com:ip:zynq_ultra_ps_e processor]
    if {[llength $installed] > 0} {
        apply_bd_automation -rule xilinx.com:bd_rule:zynq_ultra_ps_e \
            -config {apply_board_preset "1"} $processor
    }
    # a preset may open bus masters whose clocks would be left open
    set_property -dict [list \
        CONFIG.PSU__FPGA_PL0_ENABLE 1 \
        CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ $mhz \
        CONFIG.PSU__NUM_FABRIC_RESETS 1 \
        CONFIG.PSU__USE__M_AXI_GP0 0 \
        CONFIG.PSU__USE__M_AXI_GP1 0 \
        CONFIG.PSU__USE__M_AXI_GP2 0 \
    ] $processor
    create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset reset
    connect_bd_net [get_bd_pins processor/pl_clk0] \
        [get_bd_pins core/aclk] [get_bd_pins reset/slowest_sync_clk]
    connect_bd_net [get_bd_pins processor/pl_resetn0] [get_bd_pins reset/ext_reset_in]
    connect_bd_net [get_bd_pins reset/peripheral_aresetn] [get_bd_pins core/aresetn]
    if {[llength [get_bd_intf_pins -quiet core/s_axi_control]]} {
        # registers from the processor, each memory port to a high-performance port of its own, one interrupt
        set ports [lsort [get_bd_intf_pins core/m_axi_gmem*]]
        set_property -dict [list \
            CONFIG.PSU__USE__M_AXI_GP0 1 CONFIG.PSU__USE__S_AXI_GP2 1 CONFIG.PSU__USE__IRQ0 1 \
            CONFIG.PSU__USE__S_AXI_GP3 [expr {[llength $ports] > 1}] \
        ] $processor
        set pairs {/processor/M_AXI_HPM0_FPD /core/s_axi_control /core/s_axi_control}
        foreach port $ports number {0 1} {
            if {$port eq ""} continue
            lappend pairs $port /processor/S_AXI_HP${number}_FPD /processor/S_AXI_HP${number}_FPD
        }
        foreach {manager subordinate at} $pairs {
            apply_bd_automation -rule xilinx.com:bd_rule:axi4 -config [list \
                Clk_master /processor/pl_clk0 Clk_slave /processor/pl_clk0 Clk_xbar /processor/pl_clk0 \
                Master $manager Slave $subordinate intc_ip {New AXI SmartConnect} master_apm 0 \
            ] [get_bd_intf_pins $at]
        }
        connect_bd_net [get_bd_pins core/interrupt] [get_bd_pins processor/pl_ps_irq0]
        assign_bd_address
    }
    save_bd_design
    add_files -norecurse [make_wrapper -files [get_files system.bd] -top]
    set_property top system_wrapper [current_fileset]
    puts "$top: connect its streams in the block design `system`: [get_bd_intf_pins core/*]"
} else {
    add_files -fileset constrs_1 -norecurse [file join $here $constraints]
    set_property USED_IN {synthesis implementation out_of_context} [get_files [file join $here $constraints]]
    set_property top $top [current_fileset]
    set_property -name {STEPS.SYNTH_DESIGN.ARGS.MORE OPTIONS} -value {-mode out_of_context} \
        -objects [get_runs synth_1]
}
update_compile_order -fileset sources_1
"""
