# Create a Vivado project with the core in a block design: processor, clock, registers, memory, interrupt.
#   vivado -mode batch -source system.tcl                        the project, into vivado/ in this folder
#   vivado -mode batch -source system.tcl -tclargs build         and its bitstream, hardware description and platform
#   vivado -mode batch -source system.tcl -tclargs build pynq    the same with the interrupt as PYNQ finds it
# The IP is read from ../ip. Vivado 2023.2 or later; the script names no IP version.

set here [file dirname [file normalize [info script]]]
set folder [file join $here vivado]
if {![info exists argv]} { set argv {} }
foreach argument $argv {
    if {$argument ni {build pynq}} {
        puts "ERROR: $argument is not known: give build, pynq, both or nothing"
        exit 1
    }
}
set build [expr {"build" in $argv}]
set pynq [expr {"pynq" in $argv}]
if {[file exists $folder]} {
    puts "ERROR: $folder exists: delete it"
    exit 1
}
create_project ${top}_$board $folder -part $part

if {![set_board $board $board_part $board_connections]} {
    puts "ERROR: no board files for $board_part: without them the processor's memory is not set up; install them\
        with Vivado's store (Tools, Vivado Store, Boards)"
    exit 1
}
set_property ip_repo_paths [list [file join $here .. ip]] [current_project]
update_ip_catalog

create_bd_design system
set core [create_bd_cell -type ip -vlnv $vlnv core]
set processor [create_bd_cell -type ip -vlnv xilinx.com:ip:zynq_ultra_ps_e processor]
apply_bd_automation -rule xilinx.com:bd_rule:zynq_ultra_ps_e -config {apply_board_preset "1"} $processor
# registers through HPM0_FPD; each memory port of the core has a separate high-performance port of 128 bits
set_property -dict [list \
    CONFIG.PSU__FPGA_PL0_ENABLE 1 \
    CONFIG.PSU__CRL_APB__PL0_REF_CTRL__SRCSEL $pll \
    CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ $mhz \
    CONFIG.PSU__NUM_FABRIC_RESETS 1 \
    CONFIG.PSU__USE__M_AXI_GP0 1 \
    CONFIG.PSU__MAXIGP0__DATA_WIDTH 128 \
    CONFIG.PSU__USE__M_AXI_GP1 0 \
    CONFIG.PSU__USE__M_AXI_GP2 0 \
    CONFIG.PSU__USE__S_AXI_GP2 1 \
    CONFIG.PSU__SAXIGP2__DATA_WIDTH 128 \
    CONFIG.PSU__USE__IRQ0 1 \
] $processor
# HP1 and HP2 share a port of the memory controller, so HP2 is used last.
# HP0 to HP3 are GP2 to GP5 here
set ports [lrange {0 1 3 2} 0 [expr {$managers - 1}]]
foreach hp [lrange $ports 1 end] {
    set gp [expr {2 + $hp}]
    set_property -dict [list CONFIG.PSU__USE__S_AXI_GP$gp 1 CONFIG.PSU__SAXIGP${gp}__DATA_WIDTH 128] $processor
}
create_bd_cell -type ip -vlnv xilinx.com:ip:proc_sys_reset reset
create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect registers
set_property -dict [list CONFIG.NUM_SI 1 CONFIG.NUM_MI [expr {1 + $pynq}]] [get_bd_cells registers]

set clocked {core/aclk reset/slowest_sync_clk registers/aclk processor/maxihpm0_fpd_aclk}
set resets {core/aresetn registers/aresetn}
connect_bd_intf_net [get_bd_intf_pins processor/M_AXI_HPM0_FPD] [get_bd_intf_pins registers/S00_AXI]
connect_bd_intf_net [get_bd_intf_pins registers/M00_AXI] [get_bd_intf_pins core/s_axi_control]
for {set port 0} {$port < $managers} {incr port} {
    set hp [lindex $ports $port]
    create_bd_cell -type ip -vlnv xilinx.com:ip:smartconnect memory$port
    set_property -dict [list CONFIG.NUM_SI 1 CONFIG.NUM_MI 1] [get_bd_cells memory$port]
    connect_bd_intf_net [get_bd_intf_pins core/m_axi_gmem$port] [get_bd_intf_pins memory$port/S00_AXI]
    connect_bd_intf_net [get_bd_intf_pins memory$port/M00_AXI] [get_bd_intf_pins processor/S_AXI_HP${hp}_FPD]
    lappend clocked memory$port/aclk processor/saxihp${hp}_fpd_aclk
    lappend resets memory$port/aresetn
}
# PYNQ's images have a device only for line 0 of pl_ps_irq0 (GIC 121, SPI 89), and expect a controller there; elsewhere
# the line is the core's interrupt
set line core/interrupt
if {$pynq} {
    create_bd_cell -type ip -vlnv xilinx.com:ip:axi_intc interrupts
    set_property CONFIG.C_IRQ_CONNECTION 1 [get_bd_cells interrupts]
    connect_bd_intf_net [get_bd_intf_pins registers/M01_AXI] [get_bd_intf_pins interrupts/s_axi]
    connect_bd_net [get_bd_pins core/interrupt] [get_bd_pins interrupts/intr]
    lappend clocked interrupts/s_axi_aclk
    lappend resets interrupts/s_axi_aresetn
    set line interrupts/irq
}
connect_bd_net [get_bd_pins $line] [get_bd_pins processor/pl_ps_irq0]
# --debug: a logic analyser on the monitor's pins, which stores the samples selected by capture.tcl
if {[llength $probes]} {
    create_bd_cell -type ip -vlnv xilinx.com:ip:ila analyser
    set values [list \
        CONFIG.C_MONITOR_TYPE Native CONFIG.C_NUM_OF_PROBES [expr {[llength $probes] / 2}] \
        CONFIG.C_DATA_DEPTH $probe_depth CONFIG.C_EN_STRG_QUAL 1 CONFIG.C_INPUT_PIPE_STAGES 2 \
        CONFIG.ALL_PROBE_SAME_MU_CNT 2 \
    ]
    set number -1
    foreach {pin width} $probes { lappend values CONFIG.C_PROBE[incr number]_WIDTH $width }
    set_property -dict $values [get_bd_cells analyser]
    set number -1
    foreach {pin width} $probes {
        connect_bd_net [get_bd_pins core/$pin] [get_bd_pins analyser/probe[incr number]]
    }
    lappend clocked analyser/clk
}
foreach pin $clocked { connect_bd_net [get_bd_pins processor/pl_clk0] [get_bd_pins $pin] }
connect_bd_net [get_bd_pins processor/pl_resetn0] [get_bd_pins reset/ext_reset_in]
foreach pin $resets { connect_bd_net [get_bd_pins reset/peripheral_aresetn] [get_bd_pins $pin] }

assign_bd_address -offset $registers_at -range 4K [get_bd_addr_segs core/s_axi_control/registers]
assign_bd_address
validate_bd_design
save_bd_design
# the clock is a PLL divided by integers, so its rate is seldom the requested one
set hertz [get_property CONFIG.FREQ_HZ [get_bd_pins processor/pl_clk0]]
if {![string is double -strict $hertz] || abs($hertz - 1e6 * $mhz) > 1e3 * $mhz} {
    puts "ERROR: pl_clk0 has $hertz Hz and not the $mhz MHz of this package: the PLL $pll of this project has another\
        rate; ask fabtune for a clock that it reaches with --mhz"
    exit 1
}
# it takes a list of files: a bare path would be split at its spaces
add_files -norecurse [list [make_wrapper -files [get_files system.bd] -top]]
set_property top system_wrapper [current_fileset]
update_compile_order -fileset sources_1

if {$build} {
    launch_runs impl_1 -to_step write_bitstream -jobs 4
    wait_on_run impl_1
    if {[get_property PROGRESS [get_runs impl_1]] ne "100%"} {
        puts "ERROR: no bitstream: see [get_property DIRECTORY [get_runs impl_1]]"
        exit 1
    }
    set slacks {}
    foreach {check statistic remedy} {
        setup STATS.WNS "ask for a slower clock with --mhz"
        hold STATS.WHS "implement it with another strategy, for which a slower clock is no help"
    } {
        set slack [get_property $statistic [get_runs impl_1]]
        if {![string is double -strict $slack] || $slack < 0} {
            puts "ERROR: timing is not met, $check slack $slack ns: $remedy"
            exit 1
        }
        lappend slacks "$check slack $slack ns"
    }
    set out [file join $here .. out]
    file mkdir $out
    file copy -force [file join [get_property DIRECTORY [get_runs impl_1]] system_wrapper.bit] [file join $out $top.bit]
    foreach file [glob -nocomplain [file join [get_property DIRECTORY [get_runs impl_1]] system_wrapper.ltx]] {
        file copy -force $file [file join $out $top.ltx]
    }
    set description [lindex [glob [file join $folder *.gen sources_1 bd system hw_handoff system.hwh]] 0]
    file copy -force $description [file join $out $top.hwh]
    # for linux/Makefile's device tree and self-test, and for the driver for PYNQ
    set clock [open [file join $out $top.clock] w]
    puts $clock [expr {round($hertz)}]
    close $clock
    write_hw_platform -fixed -include_bit -force -file [file join $out $top.xsa]
    puts "$top: [join $slacks {, }]; clock $hertz Hz; bitstream, .hwh, .xsa and .clock are in $out"
}
