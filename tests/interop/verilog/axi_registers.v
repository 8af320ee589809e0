// Bench of `axi_registers` with registers=instantft signature=0x12345678, written from
// docs/blocks/axi/axi_registers.md and the table of registers in docs/blocks/cores/instantft.md.
`timescale 1ns / 1ps
module bench;
`include "bench.vh"
  reg aresetn = 0;
  reg [7:0] awaddr = 0, araddr = 0;
  reg [31:0] wdata = 0;
  reg [3:0] wstrb = 0;
  reg awvalid = 0, wvalid = 0, bready = 0, arvalid = 0, rready = 0;
  wire awready, wready, bvalid, arready, rvalid;
  wire [1:0] bresp, rresp;
  wire [31:0] rdata;
  // the core's side: what the host reads, events, the lock
  reg [31:0] status = 0, error_address = 0, error_address_high = 0, cycles_low = 0, cycles_high = 0, batches = 0,
             misses = 0, saturations = 0;
  reg finished = 0, locked = 0, clear = 0;
  wire [31:0] command, interrupt_enable, parameters, adapters, samples, order, cache, logits, cache_entries;
  wire [31:0] parameters_high, adapters_high, samples_high, order_high, cache_high, logits_high;
  wire [31:0] samples_per_epoch, epochs, batch, rate, mode, soft_reset;
  wire command_strobe, interrupt_line;

  axi_registers dut (
    .aclk(clk), .aresetn(aresetn),
    .s_axi_control_awaddr(awaddr), .s_axi_control_awvalid(awvalid), .s_axi_control_awready(awready),
    .s_axi_control_wdata(wdata), .s_axi_control_wstrb(wstrb), .s_axi_control_wvalid(wvalid),
    .s_axi_control_wready(wready), .s_axi_control_bresp(bresp), .s_axi_control_bvalid(bvalid),
    .s_axi_control_bready(bready), .s_axi_control_araddr(araddr), .s_axi_control_arvalid(arvalid),
    .s_axi_control_arready(arready), .s_axi_control_rdata(rdata), .s_axi_control_rresp(rresp),
    .s_axi_control_rvalid(rvalid), .s_axi_control_rready(rready),
    .status(status), .error_address(error_address), .error_address_high(error_address_high), .cycles_low(cycles_low), .cycles_high(cycles_high),
    .batches(batches), .misses(misses), .saturations(saturations), .finished(finished), .locked(locked),
    .command(command), .command_strobe(command_strobe), .interrupt_enable(interrupt_enable),
    .interrupt_line(interrupt_line), .parameters(parameters), .adapters(adapters), .samples(samples), .order(order),
    .cache(cache), .logits(logits), .cache_entries(cache_entries), .samples_per_epoch(samples_per_epoch),
    .epochs(epochs), .batch(batch), .rate(rate), .mode(mode), .parameters_high(parameters_high),
    .adapters_high(adapters_high), .samples_high(samples_high), .order_high(order_high), .cache_high(cache_high),
    .logits_high(logits_high), .soft_reset(soft_reset), .clear(clear)
  );

  // words of the map: 0 command, 1 status, 2 interrupt_enable, 3 interrupt, 4 error_address, 5 its upper
  // half, 6 signature, 7 to 24 settings, 25 to 29 counters, 63 soft_reset
  wire [32*18-1:0] settings = {
    mode, rate, batch, epochs, samples_per_epoch, cache_entries, logits_high, logits, cache_high, cache, order_high, order,
    samples_high, samples, adapters_high, adapters, parameters_high, parameters
  };
  wire [32*5-1:0] counters = {saturations, misses, batches, cycles_high, cycles_low};
  reg [31:0] kept[0:63];
  reg pending = 0;
  integer compared = 0, word, strobes = 0, strobes_due = 0;

  function writable(input integer at);
    writable = at == 0 || at == 2 || at == 3 || (at >= 7 && at <= 24) || at == 63;
  endfunction

  function [31:0] shown(input integer at);
    begin
      shown = 0;
      if (at == 1) shown = status;
      if (at == 2 || (at >= 7 && at <= 24) || at == 63) shown = kept[at];
      if (at == 3) shown = pending;
      if (at == 4) shown = error_address;
      if (at == 5) shown = error_address_high;
      if (at == 6) shown = 32'h12345678;
      if (at >= 25 && at <= 29) shown = counters[32*(at-25)+:32];
    end
  endfunction

  task check_wires;
    integer at;
    begin
      for (at = 7; at <= 24; at = at + 1)
        if (settings[32*(at-7)+:32] !== kept[at]) fail("wire of a setting", at);
      if (interrupt_enable !== kept[2]) fail("interrupt_enable", 0);
      if (command !== kept[0]) fail("command", command);
      if (soft_reset !== kept[63]) fail("soft_reset", soft_reset);
      if (interrupt_line !== (pending && kept[2][0])) fail("interrupt_line", 0);
      compared = compared + 21;
    end
  endtask

  always @(posedge clk) if (aresetn && command_strobe) strobes = strobes + 1;

  // One write. first: 0 address and data together, 1 address first, 2 data first, `apart` cycles before the other.
  // lock: the cycle after the later of the two, which counts, is locked; around: the cycles before and behind are.
  task write(input [7:0] address, input [31:0] data, input [3:0] strobe, input integer first, input integer apart,
             input lock, input around, input event_too);
    integer n;
    reg address_done, data_done;
    reg [31:0] mask;
    begin
      awaddr <= address;
      wdata <= data;
      wstrb <= strobe;
      awvalid <= first != 2;
      wvalid <= first != 1;
      locked <= around;
      bready <= chance(4);
      address_done = 0;
      data_done = 0;
      n = 0;
      while (!(address_done && data_done)) begin
        @(posedge clk);
        if (awvalid && awready) begin
          address_done = 1;
          awvalid <= 0;
        end
        if (wvalid && wready) begin
          data_done = 1;
          wvalid <= 0;
        end
        if (first == 2 && n == apart) awvalid <= 1;
        if (first == 1 && n == apart) wvalid <= 1;
        n = n + 1;
        if (n > 100) begin
          fail("a write is not accepted", address);
          address_done = 1;
          data_done = 1;
        end
      end
      locked <= lock;
      finished <= event_too;
      @(posedge clk);
      if (bvalid) fail("an answer after one cycle", address);
      check_wires;
      locked <= around;
      finished <= 0;
      // the register has its value, and the answer is there
      word = address / 4;
      mask = {{8{strobe[3]}}, {8{strobe[2]}}, {8{strobe[1]}}, {8{strobe[0]}}};
      if (!(lock && word != 2 && word != 3 && word != 63)) begin
        if (word == 0) begin
          kept[0] = data & mask;
          strobes_due = strobes_due + (strobe != 0);
        end else if (word == 2 || (word >= 7 && word <= 24)) kept[word] = (kept[word] & ~mask) | (data & mask);
        else if (word == 3 && data[0] && strobe[0]) pending = 0;
        else if (word == 63) kept[63] = kept[63] | (data & mask & 1);
      end
      if (event_too) pending = 1;
      @(posedge clk);
      if (!bvalid) fail("no answer after two cycles", address);
      if (bresp !== (writable(word) ? 0 : 2)) fail("response to a write", address);
      check_wires;
      n = 0;
      while (!bready) begin
        bready <= chance(4);
        @(posedge clk);
        if (!bvalid) fail("an answer was withdrawn", address);
      end
      bready <= 0;
      locked <= 0;
      @(posedge clk);
      if (bvalid) fail("two answers to one write", address);
      if (strobes != strobes_due) fail("command_strobe", strobes);
    end
  endtask

  task read(input [7:0] address);
    begin
      araddr <= address;
      arvalid <= 1;
      rready <= chance(4);
      @(posedge clk);
      while (!(arvalid && arready)) @(posedge clk);
      arvalid <= 0;
      @(posedge clk);
      if (rvalid) fail("a word after one cycle", address);
      @(posedge clk);
      if (!rvalid) fail("no word after two cycles", address);
      while (!rready) begin
        rready <= chance(4);
        @(posedge clk);
        if (!rvalid) fail("a word was withdrawn", address);
      end
      word = address / 4;
      if (word < 30 || word == 63) begin
        if (rresp !== 0) fail("response to a read", address);
        if (rdata !== shown(word)) fail("a word differs", address);
      end else if (rresp !== 2) fail("no SLVERR without a register", address);
      compared = compared + 1;
      rready <= 0;
      @(posedge clk);
    end
  endtask

  task reset_for(input integer cycles);
    integer at;
    begin
      aresetn <= 0;
      repeat (cycles) @(posedge clk);
      aresetn <= 1;
      for (at = 0; at < 64; at = at + 1) kept[at] = 0;
      pending = 0;
      @(posedge clk);
    end
  endtask

  task change_inputs;
    begin
      status <= random(0);
      error_address <= random(0);
      error_address_high <= random(0);
      cycles_low <= random(0);
      cycles_high <= random(0);
      batches <= random(0);
      misses <= random(0);
      saturations <= random(0);
      @(posedge clk);
    end
  endtask

  integer k, at;
  // always and not initial, where Verilator takes non-blocking assignments for blocking ones; `pass` ends it
  always begin
    reset_for(4);
    for (at = 0; at < 64; at = at + 1) read(4 * at);
    for (k = 0; k < 1500; k = k + 1) begin
      if (chance(2)) change_inputs;
      // the lowest two bits of an address are not looked at; addresses without a register
      at = chance(7) ? random(0) % 92 : random(0) % 256;
      if (chance(4)) read(at);
      else write(at, random(0), chance(1) ? 0 : random(0) >> 3, random(0) % 3, random(0) % 5, chance(1), chance(1), 0);
    end
    // the interrupt: event, enable, clear; an event wins over the write that clears it
    write(8'h08, 1, 15, 0, 0, 0, 0, 0);
    finished <= 1;
    @(posedge clk);
    finished <= 0;
    pending = 1;
    @(posedge clk);
    check_wires;
    read(8'h0c);
    write(8'h0c, 1, 4'b1110, 0, 0, 0, 0, 0);
    write(8'h0c, 32'hfffffffe, 15, 0, 0, 0, 0, 0);
    write(8'h0c, 1, 1, 0, 0, 0, 0, 1);
    read(8'h0c);
    write(8'h0c, 1, 1, 0, 0, 1, 1, 0);
    read(8'h0c);
    // a soft reset: its bit stays until `clear`, which gives all registers their values after reset
    write(8'hfc, 0, 15, 0, 0, 0, 0, 0);
    write(8'hfc, 32'hffffffff, 1, 0, 0, 1, 1, 0);
    write(8'h30, 32'hffffffff, 15, 0, 0, 0, 0, 0);
    read(8'hfc);
    clear <= 1;
    @(posedge clk);
    clear <= 0;
    for (at = 0; at < 64; at = at + 1) kept[at] = 0;
    pending = 0;
    @(posedge clk);
    check_wires;
    for (at = 0; at < 64; at = at + 1) read(4 * at);
    reset_for(1);
    for (at = 0; at < 64; at = at + 1) read(4 * at);
    pass(compared);
  end
endmodule
