"""Emitted text, tidied."""

from fpga.verilog.memories import memories_of
from fpga.verilog.netlist import tidied
from fpga.verilog.ports import ports_of

import pytest

EMITTED = r"""
module \top.part (clk, x);
  reg \$auto$verilog_backend.cc:2355:dump_module$1  = 0;
  (* init = 4'h0 *)
  wire [3:0] y;
  reg [3:0] \a$1 = 4'h5;
  reg b = 1'h1;
  wire [-1:0] nothing;
  wire [-1:0] again;
  reg [1:0] rows [1:0];
  initial begin
    rows[0] = 2'h0;
    rows[1] = 2'd0;
  end
  always @(posedge clk) begin
    if (b)
      rows[x][0:0] <= 1'h1;
  end
  reg [1:0] fixed [0:0];
  initial begin
    fixed[0] = 2'h3;
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2355:dump_module$1 ) begin end
    y = again;
  end
endmodule
"""

TIDIED = r"""
module \top.part (clk, x);
  reg wakes_blocks;
  initial wakes_blocks <= 1'b0;
  wire [3:0] y;
  reg [3:0] \a$1 ;
  reg b ;
  wire [-1:0] again;
  reg [1:0] rows [1:0];
  always @(posedge clk) begin
    if (b)
      rows[x][0:0] <= 1'h1;
  end
  reg [1:0] fixed [0:0];
  initial begin
    fixed[0] = 2'h3;
  end
  always @* begin
    if (wakes_blocks) begin end
    y = again;
  end
endmodule
"""


def test_what_is_left_out_and_what_stays():
    assert tidied(EMITTED) == TIDIED


MEMORIES = r"""
module core(clk, done);
  input clk;
  output done;
  reg [31:0] storage [15:0];
endmodule

module \core.inp.slice0 (clk);
  reg [31:0] storage [15:0];
  always @(posedge clk) begin
    if (write__en[0])
      storage[write__addr][7:0] <= write__data[7:0];
    if (write__en[1])
      storage[write__addr][15:8] <= write__data[15:8];
    if (write__en[2])
      storage[write__addr][23:16] <= write__data[23:16];
    if (write__en[3])
      storage[write__addr][31:24] <= write__data[31:24];
  end
  always @(posedge clk) begin
    if (read__en) begin
      _0_ <= storage[read__addr];
    end
  end
  assign other = storage[head];
endmodule
"""


def test_a_memory_says_its_ports():
    memory, = memories_of(MEMORIES[MEMORIES.index("module \\"):])
    assert (memory.depth, memory.width, memory.bits) == (16, 32, 512)
    assert (memory.writes, memory.mask_bits) == (1, 8)
    assert (memory.clocked_reads, memory.direct_reads) == (1, 1)
    assert memory.holds == "buffer inp: activations for gemm"


@pytest.mark.parametrize("place", ["fetch.requests", "load.requests", "load.incoming"])
def test_relays_of_more_cycles_are_memories_with_a_meaning(place):
    memory, = memories_of(MEMORIES[MEMORIES.index("module \\"):].replace("inp.slice0", place))
    assert memory.holds.endswith("on their way")


def test_a_memory_or_port_without_a_meaning_is_refused():
    with pytest.raises(ValueError, match="VerilogMemory must have a meaning in "
                                         "fpga.verilog.memories, not 'storage' of 'core'"):
        memories_of(MEMORIES)
    with pytest.raises(ValueError, match="VerilogPort must have a meaning in fpga.verilog.ports, "
                                         "not 'odd'"):
        ports_of(MEMORIES.replace("done", "odd"), "core")


def test_ports_come_with_clock_first():
    assert [(port.name, port.width, port.direction) for port in ports_of(MEMORIES, "core")] == [
        ("clk", 1, "input"), ("done", 1, "output")]
