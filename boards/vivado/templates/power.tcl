# Estimate the power of the core with the activity of a simulated job; Vivado propagates the activity inside.
#   vivado -mode batch -source power.tcl -tclargs CHECKPOINT     of the core out of context: reports/TOP_route.dcp
# The report is in CHECKPOINT's folder, with CHECKPOINT's name and _power.rpt.

if {![info exists checkpoint]} {
    if {![info exists argv] || [llength $argv] != 1} {
        puts "ERROR: name the checkpoint of the core: -tclargs FILE.dcp"
        exit 1
    }
    set checkpoint [lindex $argv 0]
}
if {![file isfile $checkpoint]} {
    puts "ERROR: there is no checkpoint $checkpoint: synth_ooc.tcl writes one in reports"
    exit 1
}
set here [file dirname [file normalize [info script]]]
set name [file rootname $checkpoint]

open_checkpoint $checkpoint
read_saif -strip_path $instance -out_file ${name}_unmatched.txt [file join $here $saif]
report_power -file ${name}_power.rpt
puts "power with the activity of $saif: ${name}_power.rpt; ports without a net: ${name}_unmatched.txt"
