// Multipliers, before Yosys maps anything else.
//
// The packing pass of Yosys only knows the DSP48E1. Its ports are wide enough for the 27-bit operand of a DSP48E2, so a
// multiplier of UltraScale+ width gets that name, and is counted as what it stands for.
`include "combinational_dsp.vh"

module \$__MUL27X18 (input [26:0] A, input [17:0] B, output [44:0] Y);
  parameter A_SIGNED = 0;
  parameter B_SIGNED = 0;
  parameter A_WIDTH = 0;
  parameter B_WIDTH = 0;
  parameter Y_WIDTH = 0;
  wire [47:0] P_48;
  DSP48E1 #(
    `COMBINATIONAL_DSP
  ) _TECHMAP_REPLACE_ (
    .A({{3{A[26]}}, A}), .B(B), .C(48'b0), .D(25'b0), .CARRYIN(1'b0), .P(P_48), .INMODE(5'b00000),
    .ALUMODE(4'b0000), .OPMODE(7'b000101), .CARRYINSEL(3'b000), .ACIN(30'b0), .BCIN(18'b0)
  );
  assign Y = P_48;
endmodule

// A multiplier in the fabric is one carry chain for each bit of the narrower operand, as Vivado builds it;
// Yosys by itself gives a compressor tree of LUTs, about twice as large.
(* techmap_celltype = "$__soft_mul" *)
module multiplier_rows (A, B, Y);
  parameter A_SIGNED = 0;
  parameter B_SIGNED = 0;
  parameter A_WIDTH = 1;
  parameter B_WIDTH = 1;
  parameter Y_WIDTH = 1;
  input [A_WIDTH-1:0] A;
  input [B_WIDTH-1:0] B;
  output [Y_WIDTH-1:0] Y;

  wire [1023:0] _TECHMAP_DO_ = "proc; clean";
  localparam WIDE = A_WIDTH > B_WIDTH ? A_WIDTH : B_WIDTH;
  localparam ROWS = A_WIDTH > B_WIDTH ? B_WIDTH : A_WIDTH;
  wire [WIDE-1:0] wide = A_WIDTH > B_WIDTH ? A : B;
  wire [ROWS-1:0] narrow = A_WIDTH > B_WIDTH ? B : A;
  wire [WIDE:0] addend = {A_SIGNED ? wide[WIDE-1] : 1'b0, wide};
  wire [WIDE:0] sum [0:ROWS-1];
  wire [WIDE+ROWS-1:0] product;

  genvar i;
  generate
    for (i = 0; i < ROWS; i = i + 1) begin
      wire [WIDE:0] before, row = narrow[i] ? addend : {(WIDE+1){1'b0}};
      if (i == 0)
        assign before = {(WIDE+1){1'b0}};
      else
        assign before = {A_SIGNED ? sum[i-1][WIDE] : 1'b0, sum[i-1][WIDE:1]};
      if (A_SIGNED && i == ROWS-1)
        assign sum[i] = before - row;
      else
        assign sum[i] = before + row;
      assign product[i] = sum[i][0];
    end
    assign product[WIDE+ROWS-1:ROWS] = sum[ROWS-1][WIDE:1];
    if (A_SIGNED)
      assign Y = $signed(product);
    else
      assign Y = product;
  endgenerate
endmodule
