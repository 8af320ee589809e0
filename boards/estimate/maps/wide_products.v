// Multipliers that do not fit one DSP, and those by a constant, before products.v.
`include "combinational_dsp.vh"

// A constant with one or two ones, or one run of ones, is an adder: Vivado spends no DSP on it.
(* techmap_celltype = "$mul" *)
module constant_product (A, B, Y);
  parameter A_SIGNED = 0;
  parameter B_SIGNED = 0;
  parameter A_WIDTH = 1;
  parameter B_WIDTH = 1;
  parameter Y_WIDTH = 1;
  parameter [A_WIDTH-1:0] _TECHMAP_CONSTMSK_A_ = 0;
  parameter [A_WIDTH-1:0] _TECHMAP_CONSTVAL_A_ = 0;
  parameter [B_WIDTH-1:0] _TECHMAP_CONSTMSK_B_ = 0;
  parameter [B_WIDTH-1:0] _TECHMAP_CONSTVAL_B_ = 0;
  input [A_WIDTH-1:0] A;
  input [B_WIDTH-1:0] B;
  output [Y_WIDTH-1:0] Y;

  localparam B_CONSTANT = &_TECHMAP_CONSTMSK_B_;
  localparam WIDTH = B_CONSTANT ? B_WIDTH : A_WIDTH;
  localparam [WIDTH-1:0] CONSTANT = B_CONSTANT ? _TECHMAP_CONSTVAL_B_ : _TECHMAP_CONSTVAL_A_;

  function integer ones(input [WIDTH-1:0] value);
    integer i;
    begin
      ones = 0;
      for (i = 0; i < WIDTH; i = i + 1) ones = ones + value[i];
    end
  endfunction

  function integer lowest(input [WIDTH-1:0] value);
    integer i;
    begin
      lowest = 0;
      for (i = WIDTH - 1; i >= 0; i = i - 1) if (value[i]) lowest = i;
    end
  endfunction

  function integer highest(input [WIDTH-1:0] value);
    integer i;
    begin
      highest = 0;
      for (i = 0; i < WIDTH; i = i + 1) if (value[i]) highest = i;
    end
  endfunction

  localparam ONES = ones(CONSTANT);
  localparam LOW = lowest(CONSTANT);
  localparam HIGH = highest(CONSTANT);
  localparam NEGATIVE = (B_CONSTANT ? B_SIGNED : A_SIGNED) && CONSTANT[WIDTH-1];
  wire _TECHMAP_FAIL_ = !(B_CONSTANT || &_TECHMAP_CONSTMSK_A_) || NEGATIVE || (ONES > 2 && ONES != HIGH - LOW + 1);

  wire [Y_WIDTH-1:0] x;
  generate
    if (B_CONSTANT)
      \$pos #(.A_SIGNED(A_SIGNED), .A_WIDTH(A_WIDTH), .Y_WIDTH(Y_WIDTH)) extend (.A(A), .Y(x));
    else
      \$pos #(.A_SIGNED(B_SIGNED), .A_WIDTH(B_WIDTH), .Y_WIDTH(Y_WIDTH)) extend (.A(B), .Y(x));
    if (ONES > 2)
      assign Y = (x << (HIGH + 1)) - (x << LOW);
    else if (ONES == 2)
      assign Y = (x << HIGH) + (x << LOW);
    else
      assign Y = x << HIGH;
  endgenerate
endmodule

// Partial products of 17 bits are summed in one cascade of DSPs, shifted by 17 where their weight grows: no LUT.
(* techmap_celltype = "$mul" *)
module wide_product (A, B, Y);
  parameter A_SIGNED = 0;
  parameter B_SIGNED = 0;
  parameter A_WIDTH = 1;
  parameter B_WIDTH = 1;
  parameter Y_WIDTH = 1;
  input [A_WIDTH-1:0] A;
  input [B_WIDTH-1:0] B;
  output [Y_WIDTH-1:0] Y;

  localparam PIECE = 17;
  localparam WIDE_PORT = 27;
  localparam NARROW_PORT = 18;
  // widths as signed operands
  localparam LA = A_SIGNED ? A_WIDTH : A_WIDTH + 1;
  localparam LB = B_SIGNED ? B_WIDTH : B_WIDTH + 1;

  // the last piece is as wide as the port
  function integer pieces(input integer width, input integer port);
    pieces = width <= port ? 1 : 1 + (width - port + PIECE - 1) / PIECE;
  endfunction

  localparam A_WIDE = pieces(LA, WIDE_PORT) * pieces(LB, NARROW_PORT)
                      <= pieces(LA, NARROW_PORT) * pieces(LB, WIDE_PORT);
  localparam LX = A_WIDE ? LA : LB;
  localparam LY = A_WIDE ? LB : LA;
  localparam NX = pieces(LX, WIDE_PORT);
  localparam NY = pieces(LY, NARROW_PORT);
  localparam NEEDED = (Y_WIDTH + PIECE - 1) / PIECE;
  localparam WEIGHTS = NX + NY - 1 < NEEDED ? NX + NY - 1 : NEEDED;
  localparam LEAST = 4;
  wire _TECHMAP_FAIL_ = NX * NY == 1 || LX < LEAST || LY < LEAST;

  wire [LA-1:0] a = A_SIGNED ? A : {1'b0, A};
  wire [LB-1:0] b = B_SIGNED ? B : {1'b0, B};
  wire [LX-1:0] x = A_WIDE ? a : b;
  wire [LY-1:0] y = A_WIDE ? b : a;
  wire [47:0] cascade [0:WEIGHTS*NX-1];
  wire [PIECE*WEIGHTS+47:0] product;

  genvar k, i;
  generate
    for (k = 0; k < WEIGHTS; k = k + 1) begin
      localparam FIRST = k < NY ? 0 : k - NY + 1;
      localparam LAST = k < NX ? k : NX - 1;
      localparam LAST_BEFORE = k <= NX ? k - 1 : NX - 1;
      for (i = FIRST; i <= LAST; i = i + 1) begin
        localparam J = k - i;
        wire [26:0] px;
        wire [17:0] py;
        wire [47:0] before, p;
        if (i == NX - 1)
          assign px = $signed(x[LX-1:PIECE*i]);
        else
          assign px = {10'b0, x[PIECE*i +: PIECE]};
        if (J == NY - 1)
          assign py = $signed(y[LY-1:PIECE*J]);
        else
          assign py = {1'b0, y[PIECE*J +: PIECE]};
        if (i > FIRST)
          assign before = cascade[k*NX + i - 1];
        else if (k > 0)
          assign before = cascade[(k-1)*NX + LAST_BEFORE];
        else
          assign before = 48'b0;
        DSP48E1 #(
          `COMBINATIONAL_DSP
        ) dsp (
          .A({{3{px[26]}}, px}), .B(py), .C(48'b0), .D(25'b0), .CARRYIN(1'b0), .P(p), .PCIN(before),
          .PCOUT(cascade[k*NX + i]), .OPMODE(i > FIRST ? 7'b0010101 : k > 0 ? 7'b1010101 : 7'b0000101),
          .INMODE(5'b00000), .ALUMODE(4'b0000), .CARRYINSEL(3'b000), .ACIN(30'b0), .BCIN(18'b0)
        );
        if (i == LAST && k == WEIGHTS - 1)
          assign product[PIECE*WEIGHTS+47:PIECE*k] = $signed(p);
        else if (i == LAST)
          assign product[PIECE*k +: PIECE] = p[PIECE-1:0];
      end
    end
    assign Y = $signed(product);
  endgenerate
endmodule
