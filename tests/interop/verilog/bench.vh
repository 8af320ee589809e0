// Clock, random numbers and verdict: included inside the module of each bench.
//
// Inputs change by non-blocking assignments at the rising edge; everything is sampled at the next one.

  reg clk = 0;
  always #2 clk = !clk;

  integer cycle = 0;
  always @(posedge clk) cycle <= cycle + 1;

  reg over = 0;

  task fail(input [8*48-1:0] what, input integer at);
    begin
      if (!over) begin
        $display("FAIL in cycle %0d: %0s (%0d)", cycle, what, at);
        over = 1;
        $finish;
      end
    end
  endtask

  task pass(input integer compared);
    begin
      if (!over) begin
        $display("PASS %0d compared in %0d cycles", compared, cycle);
        over = 1;
        $finish;
      end
    end
  endtask

  // xorshift of 32 bits
  reg [31:0] generator = 32'h2545f491;
  function [31:0] random(input integer unused);
    begin
      generator = generator ^ (generator << 13);
      generator = generator ^ (generator >> 17);
      generator = generator ^ (generator << 5);
      random = generator;
    end
  endfunction

  // high with a probability of eighths / 8
  function chance(input integer eighths);
    reg [31:0] drawn;
    begin
      drawn = random(0);
      chance = drawn[10:8] < eighths;
    end
  endfunction

  // floor(value / 2**bits) with the remainder rounded: to nearest, ties to even
  function signed [63:0] half_even(input signed [63:0] value, input integer bits);
    reg signed [63:0] floor, rest, half;
    begin
      floor = value >>> bits;
      rest = value - (floor <<< bits);
      half = 64'sd1 <<< (bits - 1);
      half_even = floor;
      if (rest > half || (rest == half && floor[0])) half_even = floor + 1;
    end
  endfunction
