"""Verilog that is rewritten for Verilator: RAMs and registers, and what must stay."""

import pytest

from accel.sim.rtl.netlist import clocked, whole_words

BYTES = """module ram(clk);
  reg [15:0] cells [7:0];
  initial begin
    cells[0] = 16'h0000;
  end
  always @(posedge clk) begin
    if (en[0])
      cells[addr[3:1]][7:0] <= \\data$0 ;
    if (en[1])
      cells[addr[3:1]][15:8] <= \\data$1 ;
  end
endmodule
"""
WORD = """module ram(clk);
  reg [15:0] cells [7:0];
  initial begin
    cells[0] = 16'h0000;
  end
  always @(posedge clk) begin
    if ((en[0]) | (en[1]))
      cells[addr[3:1]] <= { (en[1]) ? \\data$1  : cells[addr[3:1]][15:8], (en[0]) ? \\data$0  : \
cells[addr[3:1]][7:0] };
  end
endmodule
"""
PORT = """  always @(posedge clk) begin
    if (other)
      cells[0] <= 0;
  end
endmodule
"""


def test_bytes_of_a_word_are_written_at_once():
    assert whole_words(BYTES) == WORD


def test_names_belong_to_their_module():
    twice = BYTES + BYTES.replace("ram", "second")
    assert whole_words(twice) == WORD + WORD.replace("ram", "second")


@pytest.mark.parametrize("text", [
    BYTES.replace("endmodule\n", PORT),
    BYTES.replace("[15:0] cells", "[23:0] cells"),
    BYTES.replace("15:8]", "15:9]"),
    BYTES.replace("cells[addr[3:1]][7:0]", "cells[addr[2:0]][7:0]"),
    BYTES.replace("reg [15:0] cells [7:0]", "reg [15:0] cells"),
], ids=["another port", "a part of the word", "a gap", "two words", "no RAM"])
def test_other_writes_stay(text):
    assert text != BYTES and whole_words(text) == text


def test_what_was_written_is_as_it_was():
    assert whole_words(WORD) == WORD


NEXT = """  always @* begin
    if (\\$auto$verilog_backend.cc:2355:dump_module$1 ) begin end
"""
LOGIC = f"""module unit(clk, rst);
  reg [3:0] \\$1 ;
  reg \\$2 ;
  reg \\$3 ;
  reg [7:0] \\$4 ;
  always @(posedge clk)
    count <= \\$1 ;
  always @(posedge clk)
    a <= \\$2 ;
  always @(posedge clk)
    b <= \\$3 ;
  always @(posedge clk)
    wide <= \\$4 ;
  assign other = en;
{NEXT}    \\$1  = count;
    if (up) begin
      \\$1  = \\$7 [3:0];
    end else if (down) begin
      \\$1  = \\$8 [3:0];
    end
    if (rst) begin
      \\$1  = 4'h9;
    end
  end
{NEXT}    \\$2  = a;
    if (en) begin
      \\$2  = x;
    end
  end
{NEXT}    \\$3  = b;
    if (en) begin
      \\$3  = y;
    end
  end
{NEXT}    \\$4  = z;
    if (some) begin
      \\$4 [3:0] = 4'h0;
    end
  end
endmodule
"""
CLOCKED = """module unit(clk, rst);
  reg [3:0] \\$1 ;
  reg \\$2 ;
  reg \\$3 ;
  reg [7:0] \\$4 ;
  assign other = en;
  always @(posedge clk)
    if (rst) begin
      count <= 4'h9;
    end else begin
    if (up) begin
      count <= \\$7 [3:0];
    end else if (down) begin
      count <= \\$8 [3:0];
    end
    end
  always @(posedge clk) begin
    if (en) begin
      a <= x;
      b <= y;
    end
  end
  always @(posedge clk) begin
    wide <= z;
    if (some) begin
      wide[3:0] <= 4'h0;
    end
  end
endmodule
"""


def test_registers_become_what_they_do_where_the_clock_rises():
    assert clocked(LOGIC) == CLOCKED


def test_what_is_clocked_is_as_it_was():
    assert clocked(CLOCKED) == CLOCKED


@pytest.mark.parametrize("change", [
    ("assign other = en", "assign other = \\$2 "), ("\\$2  = x", "\\$2  = ~\\$2 "),
    ("    a <= \\$2 ;\n", "    a <= \\$2 ;\n  always @(posedge clk)\n    c <= \\$2 ;\n")],
    ids=["read elsewhere", "read by itself", "two registers"])
def test_other_logic_stays(change):
    text = LOGIC.replace(*change)
    assert text != LOGIC and clocked(text).count("\\$2") == text.count("\\$2")
