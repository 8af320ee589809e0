// Sums and differences, as ``arith_map.v`` of Yosys makes them, without the gates that choose between both where it is
// known which: they were a quarter of all gates of a design with many sums, and took as long to remove.
(* techmap_celltype = "$alu" *)
module _70_carry_chain (A, B, CI, BI, X, Y, CO);
  parameter A_SIGNED = 0;
  parameter B_SIGNED = 0;
  parameter A_WIDTH = 1;
  parameter B_WIDTH = 1;
  parameter Y_WIDTH = 1;
  parameter _TECHMAP_CONSTMSK_BI_ = 0;
  parameter _TECHMAP_CONSTVAL_BI_ = 0;
  (* force_downto *)
  input [A_WIDTH-1:0] A;
  (* force_downto *)
  input [B_WIDTH-1:0] B;
  input CI, BI;
  (* force_downto *)
  output [Y_WIDTH-1:0] X, Y, CO;

  wire _TECHMAP_FAIL_ = Y_WIDTH <= 2;

  localparam CHAINS = (Y_WIDTH + 3) / 4;
  localparam SUBTRACT = _TECHMAP_CONSTMSK_BI_ & _TECHMAP_CONSTVAL_BI_;
  (* force_downto *)
  wire [Y_WIDTH-1:0] left, right;
  \$pos #(.A_SIGNED(A_SIGNED), .A_WIDTH(A_WIDTH), .Y_WIDTH(Y_WIDTH)) extend_left (.A(A), .Y(left));
  \$pos #(.A_SIGNED(B_SIGNED), .A_WIDTH(B_WIDTH), .Y_WIDTH(Y_WIDTH)) extend_right (.A(B), .Y(right));
  generate
    if (SUBTRACT)
      assign X = left ~^ right;
    else if (_TECHMAP_CONSTMSK_BI_)
      assign X = left ^ right;
    else
      assign X = left ^ (BI ? ~right : right);
  endgenerate

  (* force_downto *)
  wire [4*CHAINS-1:0] select = X, data = left, sums, carries;
  assign Y = sums;
  assign CO = carries;
  genvar place;
  generate
    for (place = 0; place < CHAINS; place = place + 1) begin : part
      if (place == 0)
        CARRY4 carry (
          .CYINIT(CI), .CI(1'b0), .DI(data[3:0]), .S(select[3:0]), .O(sums[3:0]), .CO(carries[3:0])
        );
      else
        CARRY4 carry (
          .CYINIT(1'b0), .CI(carries[4*place-1]), .DI(data[4*place+:4]), .S(select[4*place+:4]),
          .O(sums[4*place+:4]), .CO(carries[4*place+:4])
        );
    end
  endgenerate
endmodule
