# Package the core with Vivado itself, as an alternative to the component.xml in ../ip.
#   vivado -mode batch -source package_ip.tcl                    into packaged_ip/ in this folder
# Vivado infers the interfaces from the ports; registers, parameters and the page are added here.

set here [file dirname [file normalize [info script]]]
set folder [file join $here packaged_ip]
if {[file exists $folder]} {
    puts "ERROR: $folder exists: delete it"
    exit 1
}
file mkdir $folder
file copy [file join $here .. ip $verilog] $folder
create_project -in_memory -part $part
# it takes a list of files: a bare path would be split at its spaces
add_files -norecurse [list [file join $folder [file tail $verilog]]]
set_property top $top [current_fileset]
update_compile_order -fileset sources_1
lassign [split $vlnv :] vendor library name version
ipx::package_project -root_dir $folder -vendor $vendor -library $library -taxonomy /Machine_Learning \
    -import_files -force
set packaged [ipx::current_core]
set_property name $name $packaged
set_property version $version $packaged
set_property core_revision $revision $packaged
set_property display_name "fabtune $name" $packaged
set_property description $summary $packaged
set_property supported_families {zynquplus Production} $packaged

# the clock's parameters come from the Verilog's attributes; the IP's other parameters follow, each once
set clock [ipx::get_bus_interfaces aclk -of_objects $packaged]
if {[llength [ipx::get_bus_parameters -quiet ASSOCIATED_BUSIF -of_objects $clock]] > 0} {
    ipx::remove_bus_parameter ASSOCIATED_BUSIF $clock
}
foreach prefix [concat s_axi_control $manager_names] {
    ipx::associate_bus_interfaces -busif $prefix -clock aclk $packaged
}
ipx::associate_bus_interfaces -clock aclk -reset aresetn $packaged
foreach prefix $manager_names {
    set space [ipx::get_address_spaces $prefix -of_objects $packaged]
    set_property width 64 $space
    set_property range [expr {1 << 64}] $space
}

set map [ipx::get_memory_maps s_axi_control -of_objects $packaged]
set block [lindex [ipx::get_address_blocks -of_objects $map] 0]
set_property name registers $block
set_property range 4096 $block
set_property usage register $block
foreach {register offset access reset text fields} $registers {
    set made [ipx::add_register $register $block]
    set_property address_offset $offset $made
    set_property size 32 $made
    set_property access $access $made
    set_property reset_value $reset $made
    set_property description $text $made
    foreach {field low width meaning} $fields {
        set part [ipx::add_field $field $made]
        set_property bit_offset $low $part
        set_property bit_width $width $part
        set_property access $access $part
        set_property description $meaning $part
    }
}

ipx::create_xgui_files $packaged
ipx::update_checksums $packaged
ipx::check_integrity $packaged
ipx::save_core $packaged
puts "$vlnv: packaged in $folder"
