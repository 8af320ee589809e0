// Bench of `perturb` with lanes=5 numbers=3 number=Q1.7 odd=true scale=U2.2 eps_shift=6 tag=7,
// written from docs/blocks/zo/perturb.md.
`timescale 1ns / 1ps
module bench;
`include "bench.vh"
  localparam LANES = 5, NUMBERS = 3, WORDS = 6000, LATENCY = 2;

  reg rst = 1;
  reg i_valid = 0, o_ready = 0;
  reg [16*LANES-1:0] i_weight = 0;
  reg [8*NUMBERS-1:0] i_number = 0;
  reg [3:0] i_scale = 0;
  reg [1:0] i_sign = 0;
  reg [6:0] i_tag = 0;
  wire i_ready, o_valid;
  wire [16*LANES-1:0] o_weight;
  wire [6:0] o_tag;

  perturb dut (
    .clk(clk), .rst(rst), .i_valid(i_valid), .i_ready(i_ready), .i_weight(i_weight), .i_number(i_number),
    .i_scale(i_scale), .i_sign(i_sign), .i_tag(i_tag),
    .o_valid(o_valid), .o_ready(o_ready), .o_weight(o_weight), .o_tag(o_tag)
  );

  // w + sign * round(eps * s * u): (2 y + 1) has 8 fraction bits, the factor 2, eps 6, a weight 12
  function [15:0] perturbed(input signed [15:0] w, input signed [7:0] y, input [3:0] s, input [1:0] sign);
    reg signed [63:0] number, factor, step, sum;
    begin
      number = y;
      factor = s;
      step = half_even((2 * number + 1) * factor, 8 + 2 + 6 - 12);
      sum = w;
      if (sign == 2'b01) sum = sum + step;
      if (sign == 2'b11) sum = sum - step;
      if (sum > 32767) sum = 32767;
      if (sum < -32768) sum = -32768;
      perturbed = sum[15:0];
    end
  endfunction

  reg [16*LANES-1:0] weights[0:WORDS];
  reg [6:0] tags[0:WORDS];
  integer taken[0:WORDS];
  integer sent = 0, received = 0, compared = 0, lane, pace = 8;
  reg held = 0;
  reg [16*LANES-1:0] held_weight;

  always @(posedge clk)
    if (rst) begin
      received = sent;
      held = 0;
    end else begin
      if (held && (!o_valid || o_weight !== held_weight)) fail("a word on offer was withdrawn", received);
      held = o_valid && !o_ready;
      held_weight = o_weight;
      if (o_valid && o_ready) begin
        if (received == sent) fail("a word too many", received);
        else begin
          if (o_weight !== weights[received]) fail("weights differ", received);
          if (o_tag !== tags[received]) fail("the tag differs", received);
          if (pace == 8 && cycle - taken[received] != LATENCY) fail("latency", cycle - taken[received]);
          received = received + 1;
          compared = compared + 1;
        end
      end
      if (i_valid && i_ready) begin
        for (lane = 0; lane < LANES; lane = lane + 1)
          weights[sent][16*lane+:16] =
            perturbed(i_weight[16*lane+:16], i_number[8*(lane%NUMBERS)+:8], i_scale, i_sign);
        tags[sent] = i_tag;
        taken[sent] = cycle;
        sent = sent + 1;
      end
      if (pace == 8 && i_valid && !i_ready) fail("a word was not taken at full speed", sent);
      if (sent == WORDS && received == WORDS) pass(compared);
      if (cycle > 20 * WORDS) fail("hung", received);
    end

  // full speed for a third; random stalls; a reset in the middle
  always @(posedge clk) begin
    rst <= cycle < 4 || (cycle > 4000 && cycle < 4004);
    if (cycle == WORDS / 3) pace <= 4;
    o_ready <= chance(pace);
    if (rst) i_valid <= 0;
    else if (!i_valid || i_ready) begin
      i_valid <= chance(pace) && sent + (i_valid && i_ready) < WORDS;
      i_weight <= {random(0), random(0), random(0)};
      // ends of the range, where sums saturate
      if (chance(2)) i_weight[31:0] <= 32'h7fff8000;
      i_number <= random(0);
      i_scale <= random(0) >> 7;
      i_sign <= random(0) >> 3;
      i_tag <= random(0) >> 9;
    end
  end
endmodule
