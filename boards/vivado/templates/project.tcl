# Create a Vivado project for the board.
#   vivado -mode batch -source project.tcl                       into vivado/ in this folder
#   vivado -mode batch -source project.tcl -tclargs FOLDER       elsewhere
# A core with AXI4-Stream ports is put into a block design with the processor as its clock and reset; connect its
# streams there. (For a core with registers `fabtune package` writes a whole system.)
# A plain block has more ports than the device has pins, so its project synthesises it out of context.

set here [file dirname [file normalize [info script]]]
set folder [file join $here vivado]
if {[info exists argv] && [llength $argv] == 1} { set folder [file normalize [lindex $argv 0]] }
if {[file exists $folder]} {
    puts "ERROR: $folder exists: delete it, or name another folder with -tclargs"
    exit 1
}
create_project ${top}_$board $folder -part $part

set with_board [set_board $board $board_part $board_connections]
if {!$with_board} {
    puts "WARNING: no board files for $board_part (install them from Vivado's store): only the part is set"
}

# these commands take lists of files: a bare path would be split at its spaces
foreach file $sources { add_files -norecurse [list [file join $here $file]] }
# the board's pins are disabled until a top module has ports of their names
add_files -fileset constrs_1 -norecurse [list [file join $here $pins]]
set_property is_enabled false [get_files [list [file join $here $pins]]]

if {$core} {
    update_compile_order -fileset sources_1
    create_bd_design system
    create_bd_cell -type module -reference $top core
    set processor [create_bd_cell -type ip -vlnv xilinx.com:ip:zynq_ultra_ps_e processor]
    if {$with_board} {
        apply_bd_automation -rule xilinx.com:bd_rule:zynq_ultra_ps_e \
            -config {apply_board_preset "1"} $processor
    }
    # a preset may enable bus masters whose clocks would stay unconnected
    set_property -dict [list \
        CONFIG.PSU__FPGA_PL0_ENABLE 1 \
        CONFIG.PSU__CRL_APB__PL0_REF_CTRL__SRCSEL $pll \
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
    save_bd_design
    add_files -norecurse [list [make_wrapper -files [get_files system.bd] -top]]
    set_property top system_wrapper [current_fileset]
    puts "$top: connect its streams in the block design `system`: [get_bd_intf_pins core/*]"
} else {
    add_files -fileset constrs_1 -norecurse [list [file join $here $constraints]]
    set_property USED_IN {synthesis implementation out_of_context} [get_files [list [file join $here $constraints]]]
    set_property top $top [current_fileset]
    set_property -name {STEPS.SYNTH_DESIGN.ARGS.MORE OPTIONS} -value {-mode out_of_context} \
        -objects [get_runs synth_1]
}
update_compile_order -fileset sources_1
