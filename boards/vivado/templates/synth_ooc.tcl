# Synthesise the block out of context, for size and speed; no pins are needed.
#   vivado -mode batch -source synth_ooc.tcl                     synthesis and logic optimisation
#   vivado -mode batch -source synth_ooc.tcl -tclargs route      up to the step `place` or `route`
# Reports and checkpoints go to reports/ in this folder. The exit status is 1 if the clock is not met after the last
# step.

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
    write_checkpoint -force [file join $reports ${top}_${step}.dcp]
}

create_project -in_memory -part $part
# these commands take lists of files: a bare path would be split at its spaces
foreach file $sources { read_verilog [list [file join $here $file]] }
read_xdc -mode out_of_context [list [file join $here $constraints]]

synth_design -mode out_of_context -top $top -part $part
# the clock comes from a buffer outside the block; without the buffer's location Vivado assumes zero skew
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

# the router fixes hold: before routing a hold slack means nothing
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
