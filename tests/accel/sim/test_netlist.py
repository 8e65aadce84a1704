"""Verilog that is rewritten for Verilator: what becomes of a RAM's writes, and what must not."""

import pytest

from accel.sim.netlist import whole_words

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
