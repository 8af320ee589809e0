// A multiplier and its adder without a register; what is registered, Yosys packs later.
`define COMBINATIONAL_DSP \
  .ACASCREG(0), .ADREG(0), .A_INPUT("DIRECT"), .ALUMODEREG(0), .AREG(0), .BCASCREG(0), .B_INPUT("DIRECT"), \
  .BREG(0), .CARRYINREG(0), .CARRYINSELREG(0), .CREG(0), .DREG(0), .INMODEREG(0), .MREG(0), .OPMODEREG(0), \
  .PREG(0), .USE_MULT("MULTIPLY"), .USE_SIMD("ONE48"), .USE_DPORT("FALSE")
