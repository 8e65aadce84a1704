# Vivado's commands that build.tcl may use, recorded in the file `calls`, with the rules that a design
# must keep for Vivado to accept it. The design is "made" in the folder `run`. Arguments: the script,
# progress, slack.
lassign $argv script progress slack
set log [open calls w]
set created ""; set settings [dict create]; set top ""
set joined {}; set assigned {}; set wired {}; set valid 0; set saved 0; set wrapped 0; set launched 0

proc record args { global log; puts $log $args }
foreach command {create_project add_files update_compile_order} {
    proc $command args "record $command {*}\$args; return $command"
}
proc create_bd_design name { record create_bd_design $name; return $name }
proc create_bd_cell args {
    global created
    record create_bd_cell {*}$args
    lappend created [lindex $args end]
    return [lindex $args end]
}
proc set_property args {
    global settings top
    record set_property {*}$args
    if {[lindex $args 0] eq "-dict"} {
        set settings [dict merge $settings [lindex $args 1]]
    } else {
        set top [lindex $args 1]
    }
}
proc setting name {
    global settings
    return [expr {[dict exists $settings CONFIG.$name] ? [dict get $settings CONFIG.$name] : 0}]
}
# Pins of the processor are there when it is configured to have them.
proc require_pin pin {
    global created
    set wants {/ps/M_AXI_GP0 PCW_USE_M_AXI_GP0 /ps/S_AXI_HP0 PCW_USE_S_AXI_HP0
        /ps/IRQ_F2P PCW_USE_FABRIC_INTERRUPT}
    if {[dict exists $wants $pin]} {
        if {![setting [dict get $wants $pin]]} { error "there is no pin $pin" }
    } elseif {[lindex [split $pin /] 1] ni $created} {
        error "there is no pin $pin"
    }
}
proc get_bd_intf_pins pin { require_pin $pin; return $pin }
proc get_bd_pins pin { require_pin $pin; return $pin }
proc connect_bd_net args {
    global wired
    record connect_bd_net {*}$args
    lappend wired {*}$args
}
proc apply_bd_automation args {
    global joined
    record apply_bd_automation {*}$args
    array set given [list -config {}]
    array set given [lrange $args 0 3]
    if {![string match *axi4 $given(-rule)]} return
    foreach end {Master Slave} { require_pin [dict get $given(-config) $end] }
    foreach port {PCW_EN_CLK0_PORT PCW_EN_RST0_PORT PCW_FPGA0_PERIPHERAL_FREQMHZ} {
        if {![setting $port]} { error "there is no clock or reset for Auto: $port" }
    }
    lappend joined [dict get $given(-config) Master]
}
proc assign_bd_address args {
    global joined assigned
    record assign_bd_address {*}$args
    set assigned $joined
}
proc validate_bd_design args {
    global joined assigned wired valid
    record validate_bd_design {*}$args
    if {[setting PCW_USE_FABRIC_INTERRUPT] && "/ps/IRQ_F2P" ni $wired} {
        error "/ps/IRQ_F2P is not connected"
    }
    foreach master {/ps/M_AXI_GP0 /lockstep_0/m_axi_gmem} {
        if {$master ni $joined} { error "$master is not connected" }
        if {$master ni $assigned} { error "$master has no address segment" }
    }
    set valid 1
}
proc save_bd_design args {
    global valid saved
    record save_bd_design {*}$args
    if {!$valid} { error "a design must be valid" }
    set saved 1
}
proc get_files name { record get_files $name; return $name }
proc current_fileset args { return sources_1 }
proc make_wrapper args {
    global saved wrapped
    record make_wrapper {*}$args
    if {!$saved || "-import" ni $args} { error "there is no design to wrap" }
    set wrapped 1
}
proc launch_runs args {
    global top wrapped launched
    record launch_runs {*}$args
    if {!$wrapped || $top ne "system_wrapper"} { error "the top must be the design's wrapper" }
    set launched 1
}
proc wait_on_run run {
    global launched
    record wait_on_run $run
    if {!$launched} { error "$run was not launched" }
    set launched 2
    file mkdir run project/lockstep.gen/sources_1/bd/system/hw_handoff
    foreach path {run/system_wrapper.bit project/lockstep.gen/sources_1/bd/system/hw_handoff/system.hwh} {
        close [open $path w]
    }
}
proc get_runs run { return $run }
proc get_property {name of} {
    global progress slack launched
    set before [dict create PROGRESS 0% STATS.WNS "" STATUS running DIRECTORY run]
    set after [dict create PROGRESS $progress STATS.WNS $slack STATUS failed DIRECTORY run]
    return [dict get [expr {$launched == 2 ? $after : $before}] $name]
}
source $script
close $log
