# Vivado's commands that build.tcl may use, recorded in the file `calls`. The design is "made" in the
# folder `run`. Arguments: the script, progress, slack.
lassign $argv script progress slack
set log [open calls w]
foreach command {
    create_project add_files update_compile_order create_bd_design create_bd_cell
    apply_bd_automation set_property get_bd_intf_pins assign_bd_address validate_bd_design
    save_bd_design get_files make_wrapper current_fileset wait_on_run get_runs
} {
    proc $command args "global log; puts \$log \[linsert \$args 0 $command\]; return $command"
}
proc launch_runs args {
    global log
    puts $log [linsert $args 0 launch_runs]
    file mkdir run project/lockstep.gen/sources_1/bd/system/hw_handoff
    foreach path {run/system_wrapper.bit project/lockstep.gen/sources_1/bd/system/hw_handoff/system.hwh} {
        close [open $path w]
    }
}
proc get_property {name of} {
    global progress slack
    return [dict get [dict create PROGRESS $progress STATS.WNS $slack STATUS failed DIRECTORY run] $name]
}
source $script
close $log
