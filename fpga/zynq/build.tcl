# Block design and bitstream for PYNQ-Z1 and PYNQ-Z2:
#
#     vivado -mode batch -source build.tcl
#
# lockstep.v and settings.tcl, which `lockstep verilog` writes, lie beside this file. Leaves
# lockstep.bit and lockstep.hwh there, which PYNQ loads. Ends with status 1 if the clock is missed.
#
# The processor's DDR and pins are set up by the board's boot loader and not by this design, so that
# it needs no board files.

set here [file dirname [file normalize [info script]]]
source [file join $here settings.tcl]

create_project -force $name [file join $here project] -part $part
add_files -norecurse [file join $here $name.v]
update_compile_order -fileset sources_1

create_bd_design system
set ps [create_bd_cell -type ip -vlnv xilinx.com:ip:processing_system7:5.5 ps]
apply_bd_automation -rule xilinx.com:bd_rule:processing_system7 -config {
    make_external "FIXED_IO, DDR" apply_board_preset 0 Master Disable Slave Disable
} $ps
# The HP port to DDR is 64 bits wide; the interconnect turns AXI4 of any width into its AXI3.
set_property -dict [list \
    CONFIG.PCW_USE_M_AXI_GP0 1 \
    CONFIG.PCW_USE_S_AXI_HP0 1 \
    CONFIG.PCW_S_AXI_HP0_DATA_WIDTH 64 \
    CONFIG.PCW_USE_FABRIC_INTERRUPT 1 \
    CONFIG.PCW_IRQ_F2P_INTR 1 \
    CONFIG.PCW_EN_CLK0_PORT 1 \
    CONFIG.PCW_EN_RST0_PORT 1 \
    CONFIG.PCW_FPGA0_PERIPHERAL_FREQMHZ $clock_mhz \
] $ps
create_bd_cell -type module -reference $name ${name}_0
proc join_axi {master slave} {
    apply_bd_automation -rule xilinx.com:bd_rule:axi4 -config [list \
        Clk_master Auto Clk_slave Auto Clk_xbar Auto Master $master Slave $slave \
        ddr_seg Auto intc_ip {New AXI Interconnect} master_apm 0 \
    ] [get_bd_intf_pins $slave]
}
join_axi /ps/M_AXI_GP0 /${name}_0/$control
join_axi /${name}_0/$memory /ps/S_AXI_HP0
connect_bd_net [get_bd_pins /${name}_0/irq] [get_bd_pins /ps/IRQ_F2P]
assign_bd_address
validate_bd_design
save_bd_design

set design [get_files system.bd]
make_wrapper -files $design -top -import
set_property top system_wrapper [current_fileset]
update_compile_order -fileset sources_1

launch_runs impl_1 -to_step write_bitstream -jobs 4
wait_on_run impl_1
if {[get_property PROGRESS [get_runs impl_1]] ne "100%"} {
    puts stderr "build.tcl: [get_property STATUS [get_runs impl_1]]; look into project/$name.runs"
    exit 1
}
set slack [get_property STATS.WNS [get_runs impl_1]]
if {$slack < 0} {
    puts stderr "build.tcl: the clock of $clock_mhz MHz is missed by [expr {-$slack}] ns; export\
        again with a lower --clock-mhz"
    exit 1
}
set run [get_property DIRECTORY [get_runs impl_1]]
file copy -force [file join $run system_wrapper.bit] [file join $here $name.bit]
set described [glob -directory [file join $here project] \
    $name.gen/sources_1/bd/system/hw_handoff/system.hwh \
    $name.srcs/sources_1/bd/system/hw_handoff/system.hwh]
file copy -force [lindex $described 0] [file join $here $name.hwh]
puts "$name.bit: $clock_mhz MHz, slack $slack ns"
