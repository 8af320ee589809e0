# Arm the logic analyser of a design of `fabtune package --debug`, and write the captured updates of parameters.
#   vivado -mode batch -source capture.tcl                      waits 10 minutes at most
#   vivado -mode batch -source capture.tcl -tclargs 512 60      number of samples, a power of two, and minutes
# Run the self-test on the board once this script says that it waits: the self-test fills the capture. The result is
# capture.csv in this folder; `fabtune compare` with the core and its settings compares the capture with golden. The
# board is connected by JTAG and runs this package's bitstream.

set here [file dirname [file normalize [info script]]]
set minutes 10
if {[info exists argv] && [llength $argv] >= 1} { set samples [lindex $argv 0] }
if {[info exists argv] && [llength $argv] == 2} { set minutes [lindex $argv 1] }
foreach {what number} [list samples $samples minutes $minutes] {
    if {![string is integer -strict $number] || $number < 1} {
        puts "ERROR: $what is $number: give a whole number above 0"
        exit 1
    }
}
set probes_file [file join $here .. out $top.ltx]
if {![file exists $probes_file]} {
    puts "ERROR: $probes_file is not there: build the bitstream with system.tcl -tclargs build"
    exit 1
}

open_hw_manager
connect_hw_server
open_hw_target
set fabric [lindex [get_hw_devices $device] 0]
if {$fabric eq ""} {
    puts "ERROR: there is no $device at the JTAG cable: is the board on, and in no other tool's hands?"
    exit 1
}
current_hw_device $fabric
set_property PROBES.FILE $probes_file $fabric
set_property FULL_PROBES.FILE $probes_file $fabric
refresh_hw_device $fabric
set analyser [lindex [get_hw_ilas -quiet -of_objects $fabric -filter {CELL_NAME =~ "*analyser*"}] 0]
if {$analyser eq ""} {
    puts "ERROR: no logic analyser answers: load the bitstream of this package first, which starts the fabric's clock"
    exit 1
}
# one probe of the monitor, by the end of its name
proc probe {analyser name} {
    return [lindex [get_hw_probes -of_objects $analyser -filter "NAME =~ \"*$name*\""] 0]
}
set valid [probe $analyser monitor_valid]
set done [probe $analyser monitor_done]
set width [get_property WIDTH $valid]
set nothing ${width}'b[string repeat 0 $width]

# from the first write on the analyser stores samples with a write or with the end of an update; with a storage
# condition the trigger must be the first sample
set_property CONTROL.DATA_DEPTH $samples $analyser
set_property CONTROL.WINDOW_COUNT 1 $analyser
set_property CONTROL.TRIGGER_POSITION 0 $analyser
set_property CONTROL.TRIGGER_CONDITION AND $analyser
set_property TRIGGER_COMPARE_VALUE neq$nothing $valid
set_property CONTROL.CAPTURE_MODE BASIC $analyser
set_property CONTROL.CAPTURE_CONDITION OR $analyser
set_property CAPTURE_COMPARE_VALUE neq$nothing $valid
set_property CAPTURE_COMPARE_VALUE eq1'b1 $done
run_hw_ila $analyser
puts "$top: waits for $samples samples: run the self-test now"
flush stdout
if {[catch {wait_on_hw_ila -timeout $minutes $analyser} problem]} {
    puts "ERROR: not $samples samples in $minutes minutes: $problem"
    exit 1
}
set file [file join $here capture.csv]
write_hw_ila_data -csv_file -force $file [upload_hw_ila_data $analyser]
close_hw_manager
puts "$top: $file"
