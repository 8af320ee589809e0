# Set the board of the project; return 0 if the board's files are not installed. The files come with Vivado or from its
# store; any version serves.
proc set_board {board board_part board_connections} {
    set installed [get_board_parts -quiet $board_part]
    if {[llength $installed] == 0} {
        set family [join [lrange [split $board_part :] 0 2] :]
        set installed [lsort -dictionary [get_board_parts -quiet $family:*]]
    }
    if {[llength $installed] == 0} { return 0 }
    set_property board_part [lindex $installed end] [current_project]
    if {$board_connections ne ""
        && [catch {set_property board_connections $board_connections [current_project]} problem]} {
        puts "WARNING: the carrier of $board is not set: $problem"
    }
    return 1
}
