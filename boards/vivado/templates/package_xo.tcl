# Package the core as a kernel for v++, which a host drives through its registers.
#   vivado -mode batch -source package_xo.tcl                    writes the .xo file into this folder
# Link it with: v++ --link --target hw --platform PLATFORM --config link.cfg *.xo
# The kernel is the IP of ../ip, copied to kernel_ip/ in this folder, with the additions for v++: the properties of a
# kernel, and each address as a register of 64 bits that names the memory's interface.

set here [file dirname [file normalize [info script]]]
set kernel [file join $here $top.xo]
set folder [file join $here kernel_ip]
foreach made [list $kernel $folder] {
    if {[file exists $made]} {
        puts "ERROR: $made exists: delete it"
        exit 1
    }
}
file copy [file join $here .. ip] $folder
create_project -in_memory -part $part
set packaged [ipx::open_core [file join $folder component.xml]]
set_property sdx_kernel true $packaged
set_property sdx_kernel_type rtl $packaged
set_property vitis_drc {ctrl_protocol user_managed} $packaged
# v++ chooses the clock's frequency
set_property ipi_drc {ignore_freq_hz true} $packaged
set clock [ipx::get_bus_interfaces aclk -of_objects $packaged]
set_property value -1 [ipx::add_bus_parameter FREQ_TOLERANCE_HZ $clock]

set map [ipx::get_memory_maps s_axi_control -of_objects $packaged]
set block [ipx::get_address_blocks registers -of_objects $map]
foreach {low high interface} $addresses {
    ipx::remove_register $high $block
    set register [ipx::get_registers $low -of_objects $block]
    set_property size 64 $register
    set_property value $interface [ipx::add_register_parameter ASSOCIATED_BUSIF $register]
}

ipx::update_checksums $packaged
ipx::check_integrity -kernel $packaged
ipx::save_core $packaged
package_xo -xo_path $kernel -kernel_name $top -ip_directory $folder -ctrl_protocol user_managed
puts "$top: $kernel"
