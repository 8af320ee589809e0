# Vivado's place in the tests: its commands that the scripts call, and no others. Each call is recorded, a Tcl list a
# line. What a script uses of a result is answered; what Vivado refuses of a wrong file, property or object is an
# error here.

# A property that is new in a script is to be looked up in Vivado's documentation, then added.
set stand_in(properties) {
    HD.CLK_SRC STEPS.SYNTH_DESIGN.ARGS.MORE\ OPTIONS USED_IN board_connections board_part ip_repo_paths is_enabled top
    CONFIG.C_IRQ_CONNECTION CONFIG.NUM_MI CONFIG.NUM_SI CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ
    CONFIG.PSU__CRL_APB__PL0_REF_CTRL__SRCSEL
    CONFIG.PSU__FPGA_PL0_ENABLE CONFIG.PSU__MAXIGP0__DATA_WIDTH CONFIG.PSU__NUM_FABRIC_RESETS
    CONFIG.PSU__SAXIGP2__DATA_WIDTH CONFIG.PSU__SAXIGP3__DATA_WIDTH CONFIG.PSU__SAXIGP5__DATA_WIDTH
    CONFIG.PSU__USE__IRQ0 CONFIG.PSU__USE__M_AXI_GP0
    CONFIG.PSU__USE__M_AXI_GP1 CONFIG.PSU__USE__M_AXI_GP2 CONFIG.PSU__USE__S_AXI_GP2
    CONFIG.PSU__USE__S_AXI_GP3 CONFIG.PSU__USE__S_AXI_GP5
    CAPTURE_COMPARE_VALUE CONTROL.CAPTURE_CONDITION CONTROL.CAPTURE_MODE CONTROL.DATA_DEPTH
    CONTROL.TRIGGER_CONDITION CONTROL.TRIGGER_POSITION CONTROL.WINDOW_COUNT FULL_PROBES.FILE PROBES.FILE
    TRIGGER_COMPARE_VALUE core_revision CONFIG.ALL_PROBE_SAME_MU_CNT CONFIG.C_DATA_DEPTH CONFIG.C_EN_STRG_QUAL
    CONFIG.C_INPUT_PIPE_STAGES CONFIG.C_MONITOR_TYPE CONFIG.C_NUM_OF_PROBES CONFIG.C_PROBE0_WIDTH
    CONFIG.C_PROBE1_WIDTH CONFIG.C_PROBE2_WIDTH CONFIG.C_PROBE3_WIDTH CONFIG.C_PROBE4_WIDTH
    access address_offset bit_offset bit_width description display_name ipi_drc name range reset_value sdx_kernel
    sdx_kernel_type size slave_memory_map_ref supported_families usage value version vitis_drc width
}
set stand_in(files) {}
set stand_in(cells) {}

# Define a command of Vivado's: it is recorded, then its body, if any, gives its result.
proc command {name {body {}}} {
    namespace eval [namespace qualifiers ::$name] {}
    # tclint-disable-next-line command-args
    proc ::$name args "
        global stand_in
        puts \$stand_in(log) \[list $name {*}\$args\]
        $body
    "
}

# Value of an option.
proc option {arguments name} {
    set at [lsearch -exact $arguments $name]
    if {$at < 0} { error "there is no $name in: $arguments" }
    return [lindex $arguments $at+1]
}

# Refuse a file that is not there.
proc must_exist {file} {
    if {![file exists $file]} { error "\[Vivado 12-172\] File or Directory '$file' does not exist" }
}

# Make a file, with its folder.
proc touch {file} {
    file mkdir [file dirname $file]
    close [open $file w]
}

foreach name {
    apply_bd_automation assign_bd_address connect_bd_intf_net connect_bd_net opt_design phys_opt_design place_design
    report_power report_timing_summary report_utilization route_design save_bd_design synth_design update_compile_order
    update_ip_catalog validate_bd_design wait_on_run write_checkpoint
    ipx::associate_bus_interfaces ipx::check_integrity ipx::create_xgui_files ipx::update_checksums
} { command $name }

# objects that are their names
foreach name {get_bd_addr_segs get_bd_cells get_bd_intf_pins get_bd_pins get_ports get_runs} {
    command $name { return [lindex $args end] }
}
command current_project { return project }
command current_fileset { return sources_1 }
command create_bd_cell {
    lappend stand_in(cells) [lindex $args end]
    return /[lindex $args end]
}
command get_sites { return {BUFGCE_X0Y10 BUFGCE_X0Y2} }
command get_board_parts {
    return [lsearch -all -inline -glob $stand_in(installed) [lindex $args end]]
}

command create_project {
    if {[lindex $args 0] eq "-in_memory"} return
    lassign $args name stand_in(project)
    set stand_in(generated) [file join $stand_in(project) $name.gen sources_1 bd system]
    file mkdir $stand_in(project)
}
command create_bd_design { lappend stand_in(files) [file join $stand_in(project) [lindex $args 0].bd] }
command make_wrapper {
    set wrapper [file join $stand_in(generated) hdl system_wrapper.v]
    touch $wrapper
    return $wrapper
}

# lists of files, and of patterns
foreach name {add_files read_verilog read_xdc} {
    command $name {
        foreach file [lindex $args end] {
            must_exist $file
            lappend stand_in(files) $file
        }
    }
}
command get_files {
    set found {}
    foreach pattern [lindex $args end] {
        foreach file $stand_in(files) {
            if {$pattern in [list $file [file tail $file]]} { lappend found $file }
        }
    }
    return $found
}
# one file
command open_checkpoint { must_exist [lindex $args end] }
command read_saif { must_exist [lindex $args end] }

command set_property {
    if {[lindex $args 0] eq "-dict"} {
        lassign $args - values objects
    } elseif {[lindex $args 0] eq "-name"} {
        set values [list [option $args -name] [option $args -value]]
        set objects [option $args -objects]
    } else {
        set values [lrange $args 0 1]
        set objects [lindex $args 2]
    }
    if {[llength $objects] == 0} { error "\[Common 17-55\] 'set_property' expects at least one object." }
    foreach {name value} $values {
        if {$name ni $stand_in(properties)} { error "set_property: there is no property $name" }
        if {$name eq "ip_repo_paths"} { foreach folder $value { must_exist $folder } }
        if {$name eq "value"} { set stand_in(parameters,[lindex $objects 0]) $value }
    }
}
command get_property {
    lassign $args name object
    switch -- $name {
        PROGRESS { return $stand_in(progress) }
        DIRECTORY { return $stand_in(runs) }
        CONFIG.FREQ_HZ { return $stand_in(hertz) }
        STATS.WNS { return $stand_in(slack) }
        STATS.WHS { return $stand_in(hold) }
        WIDTH { return $stand_in(width) }
        SLACK { return [expr {$object eq "-hold path" ? $stand_in(hold) : $stand_in(slack)}] }
    }
    error "get_property: there is no property $name"
}
command get_timing_paths {
    if {$stand_in(slack) eq "none"} return
    foreach check {-setup -hold} { if {$check in $args} { return [list "$check path"] } }
}
command launch_runs {
    if {$stand_in(progress) ne "100%"} return
    touch [file join $stand_in(runs) system_wrapper.bit]
    touch [file join $stand_in(generated) hw_handoff system.hwh]
    if {"analyser" in $stand_in(cells)} { touch [file join $stand_in(runs) system_wrapper.ltx] }
}
command write_hw_platform { touch [option $args -file] }

# The hardware manager: a cable with a processor and a fabric, and an analyser that answers or does not.
foreach name {
    open_hw_manager connect_hw_server open_hw_target current_hw_device refresh_hw_device run_hw_ila close_hw_manager
} { command $name }
command get_hw_devices { return [lsearch -all -inline -glob $stand_in(cable) [lindex $args end]] }
command get_hw_ilas { return $stand_in(ilas) }
command get_hw_probes {
    if {![regexp {^NAME =~ "(.*)"$} [option $args -filter] all pattern]} { error "no filter: $args" }
    return [lsearch -all -inline -glob {
        system_i/core_monitor_valid system_i/core_monitor_beat system_i/core_monitor_data system_i/core_monitor_done
    } $pattern]
}
command wait_on_hw_ila { if {$stand_in(full) ne "1"} { error "timed out" } }
command upload_hw_ila_data { return hw_ila_data_1 }
command write_hw_ila_data { touch [lindex $args end-1] }

# The packager: interfaces are their names, a parameter is NAME of its owner, a field is NAME of its register.
command ipx::package_project {
    must_exist [option $args -root_dir]
    if {$stand_in(associated) ne ""} { set "stand_in(parameters,ASSOCIATED_BUSIF of aclk)" $stand_in(associated) }
}
command ipx::open_core {
    must_exist [lindex $args end]
    set file [open [lindex $args end]]
    set stand_in(core) [read $file]
    close $file
    return packaged
}
command ipx::current_core { return packaged }
foreach name {
    ipx::get_bus_interfaces ipx::get_memory_maps ipx::get_address_spaces ipx::get_address_blocks ipx::get_registers
} {
    command $name {
        if {[lindex $args 0] eq "-of_objects"} { return [list reg0] }
        set name [lindex $args 0]
        if {[info exists stand_in(core)] && ![string match "*:name>$name</*" $stand_in(core)]} return
        return [list $name]
    }
}
command ipx::remove_register {
    if {![string match "*:name>[lindex $args 0]</*" $stand_in(core)]} { error "there is no register [lindex $args 0]" }
}
command ipx::add_register { return [list [lindex $args 0]] }
command ipx::add_field { return [list "[lindex $args 0] of [lindex $args 1]"] }
command ipx::get_bus_parameters {
    set parameter "[lindex $args end-2] of [option $args -of_objects]"
    if {[info exists "stand_in(parameters,$parameter)"]} { return [list $parameter] }
}
command ipx::remove_bus_parameter { unset "stand_in(parameters,[lindex $args 0] of [lindex $args 1])" }
foreach name {ipx::add_bus_parameter ipx::add_register_parameter} {
    command $name { return [list "[lindex $args 0] of [lindex $args 1]"] }
}
command ipx::associate_bus_interfaces {
    set parameter "stand_in(parameters,ASSOCIATED_BUSIF of [option $args -clock])"
    if {"-busif" in $args} {
        set names [expr {[info exists $parameter] ? [split [set $parameter] :] : {}}]
        set $parameter [join [concat $names [option $args -busif]] :]
    }
}
command ipx::save_core {
    foreach key [lsort [array names stand_in parameters,*]] {
        puts $stand_in(log) [list parameter {*}[split [string range $key 11 end] " "] $stand_in($key)]
    }
}
command package_xo {
    must_exist [file join [option $args -ip_directory] component.xml]
    touch [option $args -xo_path]
}
