// Cells of an ECP5 that yosys has no simulation model of, after Lattice's documentation.
//
// What a model does not play is refused when the design is elaborated. Registers begin as zero.

// Block RAM: 18 kbit in 2048 bytes of nine bits (FPGA-TN-02204, "sysMEM Memory Usage Guide", 5).
// Both ports have the same width; port A writes and port B reads. In rows of several bytes the
// lowest bits of the writing address enable them. A row of 36 bits is DIB above DIA, and DOB above
// DOA. What is read while it is written has no value: here it is the old one, inverted.
module DP16KD(
    input DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5,
    input DIA4, DIA3, DIA2, DIA1, DIA0,
    input ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0,
    input CEA, OCEA, CLKA, WEA, RSTA, CSA2, CSA1, CSA0,
    output DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5,
    output DOA4, DOA3, DOA2, DOA1, DOA0,
    input DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5,
    input DIB4, DIB3, DIB2, DIB1, DIB0,
    input ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0,
    input CEB, OCEB, CLKB, WEB, RSTB, CSB2, CSB1, CSB0,
    output DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5,
    output DOB4, DOB3, DOB2, DOB1, DOB0
);
    parameter DATA_WIDTH_A = 18, DATA_WIDTH_B = 18;
    parameter REGMODE_A = "NOREG", REGMODE_B = "NOREG";
    parameter RESETMODE = "SYNC", ASYNC_RESET_RELEASE = "SYNC", GSR = "ENABLED";
    parameter CSDECODE_A = "0b000", CSDECODE_B = "0b000";
    parameter WRITEMODE_A = "NORMAL", WRITEMODE_B = "NORMAL";
    parameter CLKAMUX = "CLKA", CLKBMUX = "CLKB";

    localparam WIDTH = DATA_WIDTH_A;
    localparam LOW = WIDTH == 36 ? 5 : WIDTH == 18 ? 4 : WIDTH == 9 ? 3 : WIDTH == 4 ? 2
                   : WIDTH == 2 ? 1 : 0;
    localparam BYTES = WIDTH > 9 ? WIDTH / 9 : 1, BITS = WIDTH / BYTES;
    generate
        if (DATA_WIDTH_A != DATA_WIDTH_B || CSDECODE_A != "0b000" || CSDECODE_B != "0b000"
            || CLKAMUX != "CLKA" || CLKBMUX != "CLKB" || RESETMODE != "SYNC"
            || WRITEMODE_A != "NORMAL")
            $error("DP16KD must have ports of one width, on rising edges, without decoding");
    endgenerate

    wire [35:0] given = {DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7,
                         DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0,
                         DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7,
                         DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0};
    wire [13:0] a = {ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2,
                     ADA1, ADA0};
    wire [13:0] b = {ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2,
                     ADB1, ADB0};
    wire writes = CEA & WEA & ~(CSA2 | CSA1 | CSA0);
    wire reads = CEB & ~WEB & ~(CSB2 | CSB1 | CSB0);
    wire meets = a[13:LOW] == b[13:LOW];
    wire [3:0] enables = {4{writes}} & (BYTES > 1 ? a[3:0] : 4'b0001);

    reg [WIDTH-1:0] rows [0:(1 << (14 - LOW)) - 1];
    reg [WIDTH-1:0] found = 0, kept = 0;
    integer i;
    initial for (i = 0; i < 1 << (14 - LOW); i = i + 1) rows[i] = 0;

    always @(posedge CLKA)
        for (i = 0; i < BYTES; i = i + 1)
            if (enables[i]) rows[a[13:LOW]][i * BITS +: BITS] <= given[i * BITS +: BITS];
    always @(posedge CLKB) begin
        if (RSTB) found <= 0;
        else if (reads)
            for (i = 0; i < BYTES; i = i + 1)
                found[i * BITS +: BITS] <= rows[b[13:LOW]][i * BITS +: BITS]
                                         ^ {BITS{meets & enables[i]}};
        if (RSTB) kept <= 0;
        else if (OCEB) kept <= found;
    end

    wire [WIDTH-1:0] row = REGMODE_B == "OUTREG" ? kept : found;
    wire [35:0] shown = WIDTH == 36 ? row : {row, 18'b0};
    assign {DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5,
            DOB4, DOB3, DOB2, DOB1, DOB0,
            DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5,
            DOA4, DOA3, DOA2, DOA1, DOA0} = shown;
endmodule

// Multiplier of 18 x 18 bits (FPGA-TN-02205, "sysDSP Usage Guide", 4), its registers on or off one
// by one, all on CLK0 with CE0 and RST0. A chain of multipliers (SOURCEA, SOURCEB, C) is not played.
module MULT18X18D(
    input A0, A1, A2, A3, A4, A5, A6, A7, A8, A9, A10, A11, A12, A13, A14, A15, A16, A17,
    input B0, B1, B2, B3, B4, B5, B6, B7, B8, B9, B10, B11, B12, B13, B14, B15, B16, B17,
    input C0, C1, C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13, C14, C15, C16, C17,
    input SIGNEDA, SIGNEDB, SOURCEA, SOURCEB, CLK0, CE0, RST0,
    output P0, P1, P2, P3, P4, P5, P6, P7, P8, P9, P10, P11, P12, P13, P14, P15, P16, P17, P18,
    output P19, P20, P21, P22, P23, P24, P25, P26, P27, P28, P29, P30, P31, P32, P33, P34, P35
);
    parameter REG_INPUTA_CLK = "NONE", REG_INPUTB_CLK = "NONE";
    parameter REG_PIPELINE_CLK = "NONE", REG_OUTPUT_CLK = "NONE", GSR = "ENABLED";

    wire signed [18:0] a = {SIGNEDA & A17, A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6,
                            A5, A4, A3, A2, A1, A0};
    wire signed [18:0] b = {SIGNEDB & B17, B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6,
                            B5, B4, B3, B2, B1, B0};
    reg signed [18:0] kept_a = 0, kept_b = 0;
    reg [35:0] pipeline = 0, kept = 0;
    wire signed [18:0] x = REG_INPUTA_CLK == "NONE" ? a : kept_a;
    wire signed [18:0] y = REG_INPUTB_CLK == "NONE" ? b : kept_b;
    wire [35:0] product = x * y;
    wire [35:0] later = REG_PIPELINE_CLK == "NONE" ? product : pipeline;
    always @(posedge CLK0)
        if (RST0) {kept_a, kept_b, pipeline, kept} <= 0;
        else if (CE0) begin
            kept_a <= a;
            kept_b <= b;
            pipeline <= product;
            kept <= later;
        end
    assign {P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19,
            P18, P17, P16, P15, P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0}
        = REG_OUTPUT_CLK == "NONE" ? later : kept;
endmodule

// Look-up tables, as an index. The models of yosys say the same with multiplexers: ten times as
// much code for a simulator.
module LUT4(input A, B, C, D, output Z);
    parameter [15:0] INIT = 0;
    assign Z = INIT[{D, C, B, A}];
endmodule

module LUT2(input A, B, output Z);
    parameter [3:0] INIT = 0;
    assign Z = INIT[{B, A}];
endmodule
