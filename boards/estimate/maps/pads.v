// A tristate buffer that drives a port is in the pad.
(* techmap_celltype = "$tribuf" *)
module tristate_pad (A, EN, Y);
  parameter WIDTH = 1;
  input [WIDTH-1:0] A;
  input EN;
  output [WIDTH-1:0] Y;
  genvar i;
  generate
    for (i = 0; i < WIDTH; i = i + 1)
      OBUFT pad (.I(A[i]), .T(!EN), .O(Y[i]));
  endgenerate
endmodule
