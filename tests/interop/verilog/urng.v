// Bench of `urng` with n=31 bits=8 leap=1, written from docs/blocks/rng/urng.md.
`timescale 1ns / 1ps
module bench;
`include "bench.vh"
  localparam N = 31, BITS = 8, PERIOD = 7905, LOADED = N * BITS;

  reg rst = 1;
  reg load_valid = 0, load_data = 0, load_last = 0, circulate = 0, o_ready = 0;
  wire load_ready, scan, o_valid;
  wire [N*BITS-1:0] o_number;
  wire load_bit = circulate ? scan : load_data;

  urng dut (
    .clk(clk), .rst(rst), .load_valid(load_valid), .load_ready(load_ready), .load_bit(load_bit),
    .load_last(load_last), .scan(scan), .o_valid(o_valid), .o_ready(o_ready), .o_number(o_number)
  );

  // register i in bits 8 i + 7 to 8 i
  reg [N*BITS-1:0] state, next, seeds;
  reg known = 0, reset_before = 0, loading = 0;
  integer position = 0, compared = 0, i, j;

  // taps 8, 6, 5, 4, counted from 1
  function [7:0] step(input [7:0] x);
    step = {x[6:0], x[7] ^ x[5] ^ x[4] ^ x[3]};
  endfunction

  always @(posedge clk)
    if (rst) known = 0;
    else begin
      if (!known) begin
        state = o_number;
        if (!reset_before)
          for (i = 0; i < N; i = i + 1) begin
            if (state[8*i+:8] === 0) fail("a seed is zero", i);
            for (j = 0; j < i; j = j + 1) if (state[8*i+:8] === state[8*j+:8]) fail("two seeds are alike", i);
          end
        else if (o_number !== seeds) fail("a reset does not bring position 0 back", 0);
        seeds = o_number;
        reset_before = 1;
        known = 1;
        loading = 0;
        position = 0;
      end
      if (o_valid !== !(load_valid || loading)) fail("o_valid", position);
      if (o_valid && o_number !== state) fail("numbers differ", position);
      if (o_valid) compared = compared + 1;
      if (load_ready !== 1) fail("load_ready", position);
      // the path that begins in bit 0 of register 30 ends in bit 7 of register 23
      if (load_valid && scan !== state[8*23+7]) fail("scan", position);
      if (position == PERIOD && o_number !== seeds) fail("the period is longer", position);
      if (position > 0 && position < PERIOD && o_number === seeds) fail("the period is shorter", position);

      if (load_valid) begin
        for (i = 0; i < N; i = i + 1) begin
          next[8*i+1+:7] = state[8*((i+1)%N)+:7];
          next[8*i] = state[8*((i+N-8)%N)+7];
        end
        next[0] = load_bit;
        state = next;
        loading = !load_last;
        position = -1;
      end else if (o_valid && o_ready) begin
        for (i = 0; i < N; i = i + 1) next[8*i+:8] = step(state[8*((i+1)%N)+:8]);
        state = next;
        if (position >= 0) position = position + 1;
      end
    end

  task reset_for(input integer cycles);
    begin
      rst <= 1;
      load_valid <= 0;
      repeat (cycles) @(posedge clk);
      rst <= 0;
      repeat (2) @(posedge clk);
    end
  endtask

  // so many bits, with gaps; the last one is marked or not
  task load(input integer bits, input marked);
    integer sent;
    begin
      sent = 0;
      while (sent < bits) begin
        load_valid <= chance(6);
        load_data <= random(0) >> 7;
        load_last <= marked && sent == bits - 1;
        @(posedge clk);
        // what is sampled at this edge is what the edge before gave
        if (load_valid) sent = sent + 1;
        if (load_valid && sent == bits) load_valid <= 0;
      end
      load_valid <= 0;
      @(posedge clk);
    end
  endtask

  // `length` cycles in which the sink takes a word with a probability of pace / 8
  task take(input integer length, input integer pace);
    repeat (length) begin
      o_ready <= chance(pace);
      @(posedge clk);
    end
  endtask

  reg [N*BITS-1:0] before_circulation;
  // always and not initial, where Verilator takes non-blocking assignments for blocking ones; `pass` ends it
  always begin
    reset_for(4);
    take(PERIOD + 100, 8);
    load(LOADED, 1);
    take(300, 4);
    reset_for(1);
    take(100, 4);
    // readback: scan fed into load leaves the state in place
    o_ready <= 0;
    @(posedge clk);
    @(posedge clk);
    before_circulation = o_number;
    circulate <= 1;
    load(LOADED, 1);
    circulate <= 0;
    if (o_number !== before_circulation) fail("a readback changes the state", 0);
    take(300, 4);
    // a load without a mark keeps the block silent until a later bit carries it
    load(LOADED + 3, 0);
    take(20, 8);
    if (o_valid) fail("numbers without a mark", 0);
    load(1, 1);
    take(300, 8);
    // a reset in the middle of a load
    load(100, 0);
    reset_for(1);
    take(300, 8);
    pass(compared);
  end
endmodule
