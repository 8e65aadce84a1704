// Runs one program on the core, between a clock and memory, and compares what it leaves in memory.
//
// Reads memory.hex and expected.hex from the working directory: a word of the bus a line. Prints
// PASS, or what differs and FAIL.

`timescale 1ns / 1ps

module bench;
`include "bench.vh"

  localparam BUS_BITS = 8 * BUS_BYTES;

  reg clk = 0, rst = 1, start = 0;
  always #5 clk = ~clk;

  reg [BUS_BITS-1:0] memory[0:WORDS-1];
  reg [BUS_BITS-1:0] expected[0:WORDS-1];

  wire done;
  wire [2:0] status;
  wire [7:0] status_unit;
  wire [25:0] status_index;

  // Of each memory port.
  wire [CHANNELS-1:0] request_valid, request_ready, wdata_valid, wdata_ready;
  wire [CHANNELS-1:0] rdata_valid, rdata_ready, ack_valid, ack_payload;
  wire [37:0] request_payload[0:CHANNELS-1];
  wire [BUS_BITS+BUS_BYTES-1:0] wdata_payload[0:CHANNELS-1];
  wire [BUS_BITS:0] rdata_payload[0:CHANNELS-1];

  // The memory behind a port: one burst at a time, with a pause of zero to three cycles before each
  // answer.
  localparam [1:0] FREE = 0, READS = 1, WRITES = 2, ANSWERS = 3;
  genvar channel;
  generate
    for (channel = 0; channel < CHANNELS; channel = channel + 1) begin : port
      reg [1:0] state = FREE, pause = 0;
      reg [31:0] at = 0;
      reg [4:0] last = 0;
      reg [7:0] random = 8'h5a + channel;

      wire outside = at >= WORDS;
      assign request_ready[channel] = state == FREE;
      assign wdata_ready[channel] = state == WRITES && pause == 0;
      assign rdata_valid[channel] = state == READS && pause == 0;
      assign rdata_payload[channel] = {outside, outside ? {BUS_BITS{1'b0}} : memory[at]};
      assign ack_valid[channel] = state == ANSWERS && pause == 0;
      assign ack_payload[channel] = at > WORDS;

      integer lane;
      always @(posedge clk) begin
        random <= {random[6:0], random[7] ^ random[5] ^ random[4] ^ random[3]};
        pause <= pause == 0 ? 2'd0 : pause - 2'd1;
        case (state)
          FREE:
            if (request_valid[channel] && !rst) begin     // in reset it is not defined
              at <= request_payload[channel][31:0] / BUS_BYTES;
              last <= request_payload[channel][36:32];
              state <= request_payload[channel][37] ? WRITES : READS;
              pause <= random[1:0];
            end
          READS:
            if (rdata_valid[channel] && rdata_ready[channel]) begin
              at <= at + 1;
              last <= last - 5'd1;
              pause <= random[1:0];
              if (last == 0) state <= FREE;
            end
          WRITES:
            if (wdata_valid[channel] && wdata_ready[channel]) begin
              if (!outside)
                for (lane = 0; lane < BUS_BYTES; lane = lane + 1)
                  if (wdata_payload[channel][BUS_BITS+lane])
                    memory[at][8*lane+:8] <= wdata_payload[channel][8*lane+:8];
              at <= at + 1;
              last <= last - 5'd1;
              pause <= random[1:0];
              if (last == 0) state <= ANSWERS;
            end
          ANSWERS: if (pause == 0) state <= FREE;
        endcase
      end
    end
  endgenerate

  core core (
      .clk(clk),
      .rst(rst),
      .start(start),
      .count(COUNT[25:0]),
      .base_program(BASE_PROGRAM),
      .base_weights(BASE_WEIGHTS),
      .base_activations(BASE_ACTIVATIONS),
      .base_io(BASE_IO),
      .counter(6'd0),
      `MEMORY_PORTS
      .done(done),
      .status(status),
      .status_unit(status_unit),
      .status_index(status_index)
  );

  integer cycles, word, wrong;
  initial begin
    $readmemh("memory.hex", memory);
    $readmemh("expected.hex", expected);
    repeat (4) @(negedge clk);
    rst = 0;
    repeat (4) @(negedge clk);
    start = 1;
    @(negedge clk);
    start = 0;
    cycles = 1;
    while (done !== 1 && cycles < MOST_CYCLES) begin
      @(negedge clk);
      cycles = cycles + 1;
    end
    wrong = 0;
    if (done !== 1) begin
      wrong = 1;
      $display("the program has not ended after %0d cycles", cycles);
    end else if ({29'd0, status} !== STATUS) begin
      wrong = 1;
      $display("status must be %0d, not %0d: unit %0d, instruction %0d", STATUS, status,
               status_unit, status_index);
    end
    for (word = 0; word < WORDS; word = word + 1)
      if (memory[word] !== expected[word]) begin
        wrong = wrong + 1;
        if (wrong <= 10)
          $display("word %0d must be %h, not %h", word, expected[word], memory[word]);
      end
    if (wrong == 0) $display("PASS: %0d instructions in %0d cycles", COUNT, cycles);
    else $display("FAIL: %0d differences", wrong);
    $finish;
  end
endmodule
