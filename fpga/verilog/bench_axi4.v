// Runs one program on the core behind AXI4, between a host that writes its registers and a memory,
// and compares what it leaves in memory.
//
// Reads memory.hex and expected.hex from the working directory: a word of the bus a line. Prints
// PASS, or what differs and FAIL.

`timescale 1ns / 1ps

module bench;
`include "bench.vh"

  localparam BUS_BITS = 8 * BUS_BYTES;

  reg clk = 0, resetn = 0;
  always #5 clk = ~clk;

  reg [BUS_BITS-1:0] memory[0:WORDS-1];
  reg [BUS_BITS-1:0] expected[0:WORDS-1];

  wire irq;

  // The memory: one burst at a time, with a pause of zero to three cycles before each beat.
  localparam [1:0] FREE = 0, READS = 1, WRITES = 2, ANSWERS = 3;
  reg [1:0] state = FREE, pause = 0;
  reg [31:0] at = 0;
  reg [7:0] last = 0;
  reg [7:0] random = 8'h5a;

  wire [31:0] awaddr, araddr;
  wire [7:0] awlen, arlen;
  wire [BUS_BITS-1:0] wdata;
  wire [BUS_BYTES-1:0] wstrb;
  wire awvalid, arvalid, wvalid, rready, bready;
  wire awready = state == FREE;
  wire arready = state == FREE && !awvalid;
  wire wready = state == WRITES && pause == 0;
  wire rvalid = state == READS && pause == 0;
  wire bvalid = state == ANSWERS && pause == 0;
  wire outside = at >= WORDS;

  integer lane;
  always @(posedge clk) begin
    random <= {random[6:0], random[7] ^ random[5] ^ random[4] ^ random[3]};
    pause <= pause == 0 ? 2'd0 : pause - 2'd1;
    case (state)
      FREE:
        if (awvalid === 1) begin
          at <= awaddr / BUS_BYTES;
          last <= awlen;
          state <= WRITES;
          pause <= random[1:0];
        end else if (arvalid === 1) begin
          at <= araddr / BUS_BYTES;
          last <= arlen;
          state <= READS;
          pause <= random[1:0];
        end
      READS:
        if (rvalid && rready) begin
          at <= at + 1;
          last <= last - 8'd1;
          pause <= random[1:0];
          if (last == 0) state <= FREE;
        end
      WRITES:
        if (wvalid && wready) begin
          if (!outside)
            for (lane = 0; lane < BUS_BYTES; lane = lane + 1)
              if (wstrb[lane]) memory[at][8*lane+:8] <= wdata[8*lane+:8];
          at <= at + 1;
          last <= last - 8'd1;
          pause <= random[1:0];
          if (last == 0) state <= ANSWERS;
        end
      ANSWERS: if (bvalid && bready) state <= FREE;
    endcase
  end

  // The host, with one access at a time.
  reg [11:0] address = 0;
  reg [31:0] value = 0;
  reg s_awvalid = 0, s_wvalid = 0, s_arvalid = 0;
  wire s_awready, s_wready, s_arready, s_bvalid, s_rvalid;
  wire [31:0] s_rdata;

  lockstep lockstep (
      .ap_clk(clk),
      .ap_rst_n(resetn),
      .irq(irq),
      .s_axi_control_awaddr(address),
      .s_axi_control_awprot(3'd0),
      .s_axi_control_awvalid(s_awvalid),
      .s_axi_control_awready(s_awready),
      .s_axi_control_wdata(value),
      .s_axi_control_wstrb(4'hf),
      .s_axi_control_wvalid(s_wvalid),
      .s_axi_control_wready(s_wready),
      .s_axi_control_bvalid(s_bvalid),
      .s_axi_control_bready(1'b1),
      .s_axi_control_araddr(address),
      .s_axi_control_arprot(3'd0),
      .s_axi_control_arvalid(s_arvalid),
      .s_axi_control_arready(s_arready),
      .s_axi_control_rdata(s_rdata),
      .s_axi_control_rvalid(s_rvalid),
      .s_axi_control_rready(1'b1),
      .m_axi_gmem_awaddr(awaddr),
      .m_axi_gmem_awlen(awlen),
      .m_axi_gmem_awvalid(awvalid),
      .m_axi_gmem_awready(awready),
      .m_axi_gmem_wdata(wdata),
      .m_axi_gmem_wstrb(wstrb),
      .m_axi_gmem_wvalid(wvalid),
      .m_axi_gmem_wready(wready),
      .m_axi_gmem_bid(1'b0),
      .m_axi_gmem_bresp({at > WORDS, 1'b0}),
      .m_axi_gmem_bvalid(bvalid),
      .m_axi_gmem_bready(bready),
      .m_axi_gmem_araddr(araddr),
      .m_axi_gmem_arlen(arlen),
      .m_axi_gmem_arvalid(arvalid),
      .m_axi_gmem_arready(arready),
      .m_axi_gmem_rid(1'b0),
      .m_axi_gmem_rdata(outside ? {BUS_BITS{1'b0}} : memory[at]),
      .m_axi_gmem_rresp({outside, 1'b0}),
      .m_axi_gmem_rlast(last == 0),
      .m_axi_gmem_rvalid(rvalid),
      .m_axi_gmem_rready(rready)
  );

  // Both begin and end where the clock falls.
  task write(input [31:0] register, input [31:0] number);
    begin
      address = register[11:0];
      value = number;
      s_awvalid = 1;
      s_wvalid = 1;
      while (!(s_awready === 1 && s_wready === 1)) @(negedge clk);
      @(negedge clk);
      s_awvalid = 0;
      s_wvalid = 0;
      while (s_bvalid !== 1) @(negedge clk);
      @(negedge clk);
    end
  endtask

  task read(input [31:0] register);
    begin
      address = register[11:0];
      s_arvalid = 1;
      while (s_arready !== 1) @(negedge clk);
      @(negedge clk);
      s_arvalid = 0;
      while (s_rvalid !== 1) @(negedge clk);
      value = s_rdata;
      @(negedge clk);
    end
  endtask

  integer cycles, word, wrong;
  initial begin
    $readmemh("memory.hex", memory);
    $readmemh("expected.hex", expected);
    repeat (8) @(negedge clk);
    resetn = 1;
    repeat (8) @(negedge clk);
    write(REGISTER_COUNT, COUNT);
    write(REGISTER_BASE_PROGRAM, BASE_PROGRAM);
    write(REGISTER_BASE_WEIGHTS, BASE_WEIGHTS);
    write(REGISTER_BASE_ACTIVATIONS, BASE_ACTIVATIONS);
    write(REGISTER_BASE_IO, BASE_IO);
    write(REGISTER_RUN, 32'd1);
    write(REGISTER_INTERRUPT, 32'd1);
    cycles = 0;
    while (irq !== 1 && cycles < MOST_CYCLES) begin
      @(negedge clk);
      cycles = cycles + 1;
    end
    wrong = 0;
    read(REGISTER_DONE);
    if (value !== 32'd1) begin
      wrong = 1;
      $display("the program has not ended after %0d cycles", cycles);
    end
    read(REGISTER_STATUS);
    if (value[7:0] !== STATUS[7:0]) begin
      wrong = wrong + 1;
      $display("status must be %0d, not %0d", STATUS, value[7:0]);
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
