# Package the core as a kernel for v++, which a host drives through its registers.
#   vivado -mode batch -source package_xo.tcl                    writes the .xo file beside this file
# Link it with: v++ --link --target hw --platform PLATFORM --config link.cfg *.xo

set here [file dirname [file normalize [info script]]]
set kernel [file join $here $top.xo]
if {[file exists $kernel]} {
    puts "ERROR: $kernel exists: delete it"
    exit 1
}
package_xo -xo_path $kernel -kernel_name $top -ip_directory [file join $here .. ip] -ctrl_protocol user_managed
puts "$top: $kernel"
