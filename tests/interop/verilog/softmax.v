// Bench of `softmax` with classes=10, written from docs/blocks/nn/softmax.md.
`timescale 1ns / 1ps
module bench;
`include "bench.vh"
  localparam CLASSES = 10, OCTAVES = 3, SAMPLES = 600;

  reg rst = 1;
  reg i_valid = 0, i_last = 0, o_ready = 0;
  reg signed [23:0] i_logit = 0;
  wire i_ready, o_valid, o_last;
  wire [15:0] o_probability;

  softmax dut (
    .clk(clk), .rst(rst), .i_valid(i_valid), .i_ready(i_ready), .i_logit(i_logit), .i_last(i_last),
    .o_valid(o_valid), .o_ready(o_ready), .o_probability(o_probability), .o_last(o_last)
  );

  // exp(-i / 2**7) in U1.17; the last entry is 0
  function signed [63:0] exponential(input integer i);
    exponential = i == 2047 ? 0 : $rtoi($exp(-i / 128.0) * 131072.0 + 0.5);
  endfunction

  // 1 / (1 + i / 2**10) in U1.16
  function signed [63:0] reciprocal(input integer i);
    reciprocal = $rtoi(65536.0 / (1.0 + i / 1024.0) + 0.5);
  endfunction

  reg signed [23:0] sample[0:CLASSES];
  reg signed [63:0] terms[0:CLASSES];
  reg [15:0] expected[0:SAMPLES*CLASSES];
  reg lasts[0:SAMPLES*CLASSES];
  integer expected_count = 0, received = 0, compared = 0, length = 0, samples = 0, resets = 0, pace = 8, at;

  task compute;
    reg signed [63:0] largest, distance, sum, mantissa, result;
    integer top;
    begin
      largest = sample[0];
      for (at = 1; at < length; at = at + 1) if (sample[at] > largest) largest = sample[at];
      sum = 0;
      for (at = 0; at < length; at = at + 1) begin
        // Q8.16 to U4.7: nine bits are rounded off
        distance = half_even(largest - sample[at], 9);
        if (distance > 2047) distance = 2047;
        terms[at] = exponential(distance);
        sum = sum + terms[at];
      end
      // place of the sum's leading one; 17 is 1.0
      top = 17;
      while (sum >> (top + 1) != 0) top = top + 1;
      mantissa = half_even(sum - (64'sd1 <<< top), top - 10);
      if (mantissa > 1023) mantissa = 1023;
      for (at = 0; at < length; at = at + 1) begin
        // 17 + 16 fraction bits, shifted by the octave, to 12
        result = half_even(terms[at] * reciprocal(mantissa), 17 + 16 + (top - 17) - 12);
        expected[expected_count] = result[15:0];
        lasts[expected_count] = at == length - 1;
        expected_count = expected_count + 1;
      end
      samples = samples + 1;
    end
  endtask

  // at full speed: cycle of a sample's first logit, and what is due
  integer first_at = 0, due_start = -1, finished = 0;
  integer due_last[0:SAMPLES], due_first[0:SAMPLES];
  reg begins = 1;
  reg held = 0;
  reg [15:0] held_probability;

  always @(posedge clk)
    if (rst) begin
      length = 0;
      received = expected_count;
      held = 0;
      due_start = -1;
      finished = samples;
      begins = 1;
    end else begin
      if (held && (!o_valid || o_probability !== held_probability)) fail("a word on offer was withdrawn", received);
      held = o_valid && !o_ready;
      held_probability = o_probability;
      if (o_valid && o_ready) begin
        if (received == expected_count) fail("a word too many", received);
        else begin
          if (o_probability !== expected[received]) fail("probabilities differ", received);
          if (o_last !== lasts[received]) fail("o_last", received);
          if (pace == 8 && o_last && cycle != due_last[finished])
            fail("cycle of the last probability", cycle - due_last[finished]);
          if (pace == 8 && begins && cycle != due_first[finished])
            fail("cycle of the first probability", cycle - due_first[finished]);
          begins = o_last;
          if (o_last) finished = finished + 1;
          received = received + 1;
          compared = compared + 1;
        end
      end
      if (i_valid && i_ready) begin
        if (length == 0) begin
          if (pace == 8 && due_start >= 0 && cycle != due_start) fail("period of a sample", cycle - due_start);
          first_at = cycle;
        end
        sample[length] = i_logit;
        length = length + 1;
        if (i_last) begin
          due_start = first_at + 3 * length + 5 + OCTAVES;
          due_first[samples] = first_at + 2 * length + 10 + OCTAVES;
          due_last[samples] = due_start + 4;
          compute;
          length = 0;
        end
      end
      if (begun == SAMPLES && left == 0 && !i_valid && received == expected_count) pass(compared);
      if (cycle > 200 * SAMPLES) fail("hung", received);
    end

  // samples of one to ten logits: near each other, far apart, all alike
  integer left = 0, kind = 0, begun = 0;
  always @(posedge clk) begin
    rst <= cycle < 4 || (cycle > 12000 && cycle < 12004);
    if (begun == SAMPLES / 4) pace <= 4;
    o_ready <= chance(pace);
    if (rst) begin
      i_valid <= 0;
      left = 0;
    end else if (!i_valid || i_ready) begin
      i_valid <= 0;
      if (chance(pace) && (left > 0 || begun < SAMPLES)) begin
        if (left == 0) begin
          left = 1 + random(0) % CLASSES;
          kind = random(0) % 4;
          begun = begun + 1;
        end
        i_valid <= 1;
        i_logit <= random(0);
        if (kind == 1) i_logit <= $signed(random(0)) >>> 12;
        if (kind == 2) i_logit <= $signed(random(0)) >>> 16;
        if (kind == 3) i_logit <= 24'h012345;
        i_last <= left == 1;
        left = left - 1;
      end
    end
  end
endmodule
