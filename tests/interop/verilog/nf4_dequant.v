// Bench of `nf4_dequant` with lanes=3 scales=5 tag=7, written from docs/blocks/nf4/nf4_dequant.md and docs/nf4.md.
`timescale 1ns / 1ps
module bench;
`include "bench.vh"
  localparam LANES = 3, SCALES = 5, WORDS = 6000, LATENCY = 4;

  reg rst = 1;
  reg i_valid = 0, o_ready = 0;
  reg [4*LANES-1:0] i_code = 0;
  reg [23*SCALES-1:0] i_scale = 0;
  reg [3*LANES-1:0] i_select = 0;
  reg [7:0] tie = 0;
  reg [6:0] i_tag = 0;
  wire i_ready, o_valid;
  wire [24*LANES-1:0] o_value;
  wire [6:0] o_tag;

  nf4_dequant dut (
    .clk(clk), .rst(rst), .i_valid(i_valid), .i_ready(i_ready), .i_code(i_code), .i_scale(i_scale),
    .i_select(i_select), .i_tag(i_tag), .o_valid(o_valid), .o_ready(o_ready), .o_value(o_value), .o_tag(o_tag)
  );

  // levels of QLoRA, appendix E, with 16 fraction bits to nearest
  function signed [63:0] level(input [3:0] code);
    real exact;
    begin
      case (code)
        0: exact = -1.0;
        1: exact = -0.6961928009986877;
        2: exact = -0.5250730514526367;
        3: exact = -0.39491748809814453;
        4: exact = -0.28444138169288635;
        5: exact = -0.18477343022823334;
        6: exact = -0.09105003625154495;
        7: exact = 0.0;
        8: exact = 0.07958029955625534;
        9: exact = 0.16093020141124725;
        10: exact = 0.24611230194568634;
        11: exact = 0.33791524171829224;
        12: exact = 0.44070982933044434;
        13: exact = 0.5626170039176941;
        14: exact = 0.7229568362236023;
        default: exact = 1.0;
      endcase
      level = $rtoi(exact * 65536.0 + (exact < 0.0 ? -0.5 : 0.5));
    end
  endfunction

  function [23:0] value(input [3:0] code, input [22:0] scale);
    reg signed [63:0] factor, rounded;
    begin
      factor = scale;
      rounded = half_even(level(code) * factor, 16);
      value = rounded[23:0];
    end
  endfunction

  reg [24*LANES-1:0] values[0:WORDS];
  reg [6:0] tags[0:WORDS];
  integer taken[0:WORDS];
  integer sent = 0, received = 0, compared = 0, lane, chosen, pace = 8;
  reg held = 0;
  reg [24*LANES-1:0] held_value;

  always @(posedge clk)
    if (rst) begin
      received = sent;
      held = 0;
    end else begin
      if (held && (!o_valid || o_value !== held_value)) fail("a word on offer was withdrawn", received);
      held = o_valid && !o_ready;
      held_value = o_value;
      if (o_valid && o_ready) begin
        if (received == sent) fail("a word too many", received);
        else begin
          if (o_value !== values[received]) fail("values differ", received);
          if (o_tag !== tags[received]) fail("the tag differs", received);
          if (pace == 8 && cycle - taken[received] != LATENCY) fail("latency", cycle - taken[received]);
          received = received + 1;
          compared = compared + 1;
        end
      end
      if (i_valid && i_ready) begin
        for (lane = 0; lane < LANES; lane = lane + 1) begin
          // a number beyond the last scale takes the last
          chosen = i_select[3*lane+:3];
          if (chosen >= SCALES) chosen = SCALES - 1;
          values[sent][24*lane+:24] = value(i_code[4*lane+:4], i_scale[23*chosen+:23]);
        end
        tags[sent] = i_tag;
        taken[sent] = cycle;
        sent = sent + 1;
      end
      if (pace == 8 && i_valid && !i_ready) fail("a word was not taken at full speed", sent);
      if (sent == WORDS && received == WORDS) pass(compared);
      if (cycle > 20 * WORDS) fail("hung", received);
    end

  always @(posedge clk) begin
    rst <= cycle < 4 || (cycle > 4000 && cycle < 4004);
    if (cycle == WORDS / 3) pace <= 4;
    o_ready <= chance(pace);
    if (rst) i_valid <= 0;
    else if (!i_valid || i_ready) begin
      i_valid <= chance(pace) && sent + (i_valid && i_ready) < WORDS;
      tie = random(0) >> 24;
      i_code <= random(0) >> 5;
      i_scale <= {random(0), random(0), random(0), random(0)};
      // multiples of 1/2, among whose products are ties; the largest scale
      if (chance(2)) i_scale[45:0] <= {tie, 15'd0, 23'h7fffff};
      i_select <= random(0) >> 8;
      i_tag <= random(0) >> 11;
    end
  end
endmodule
