// Bench of `axi_read` with data=64 burst=16 depth=64, written from docs/blocks/axi/axi_read.md.
`timescale 1ns / 1ps
module bench;
`include "bench.vh"
  localparam BURST = 16, BYTES = 8, DEPTH = 64;

  reg aresetn = 0, stop = 0;
  reg [63:0] command = 0;
  reg command_valid = 0, sink_ready = 0;
  wire command_ready, beat_valid, beat_last, idle;
  wire [63:0] beat;
  wire [1:0] error;
  wire [31:0] error_address;
  wire arid, arvalid, rready;
  wire [63:0] araddr;
  wire [7:0] arlen;
  wire [2:0] arsize;
  wire [1:0] arburst;
  reg arready = 0, rvalid = 0, rlast = 0;
  reg [63:0] rdata = 0;
  reg [1:0] rresp = 0;

  axi_read dut (
    .aclk(clk), .aresetn(aresetn), .stop(stop), .idle(idle), .error(error), .error_address(error_address),
    .s_axis_command_tdata(command), .s_axis_command_tvalid(command_valid), .s_axis_command_tready(command_ready),
    .m_axis_tdata(beat), .m_axis_tlast(beat_last), .m_axis_tvalid(beat_valid), .m_axis_tready(sink_ready),
    .m_axi_gmem_arid(arid), .m_axi_gmem_araddr(araddr), .m_axi_gmem_arlen(arlen), .m_axi_gmem_arsize(arsize),
    .m_axi_gmem_arburst(arburst), .m_axi_gmem_arvalid(arvalid), .m_axi_gmem_arready(arready),
    .m_axi_gmem_rid(1'b0), .m_axi_gmem_rdata(rdata), .m_axi_gmem_rresp(rresp), .m_axi_gmem_rlast(rlast),
    .m_axi_gmem_rvalid(rvalid), .m_axi_gmem_rready(rready)
  );

  function [63:0] content(input [31:0] address);
    content = {address * 32'h9e3779b1, address ^ 32'hdeadbeef};
  endfunction

  // what is due: beats at the sink, addresses at the bus, by command
  reg [31:0] begins[0:4095];
  reg [15:0] lengths[0:4095];
  integer commands = 0, at_sink = 0, at_bus = 0, sink_beat = 0, bus_beat = 0, compared = 0, commands_wanted = 0;
  integer memory_pace = 8, sink_pace = 8, command_pace = 8, command_cycle = 0, arrival = 0, latency_checked = 0;
  // bursts that the memory owes
  reg [31:0] burst_address[0:65535];
  reg [8:0] burst_beats[0:65535];
  integer asked = 0, ended = 0, answered = 0, answered_beat = 0, bad_burst = -1;
  reg [1:0] bad_seen = 0;
  reg dead = 0, held_ar = 0, held_beat = 0;
  reg [63:0] held_araddr;
  reg [63:0] held_data;

  always @(posedge clk)
    if (!aresetn) begin
      commands = 0; at_sink = 0; at_bus = 0; sink_beat = 0; bus_beat = 0;
      asked = 0; ended = 0; answered = 0; answered_beat = 0; dead = 0; bad_seen = 0; held_ar = 0; held_beat = 0;
    end else begin
      if (rready !== 1) fail("rready", asked);
      if (idle && (asked != ended || (!dead && at_bus != commands))) fail("idle is too early", asked);
      if (rvalid && rlast) ended = ended + 1;
      // -- addresses
      if (held_ar && (!arvalid || araddr !== held_araddr)) fail("an address on offer was withdrawn", asked);
      if (arvalid && arready) begin
        if (arid !== 0 || arburst !== 2'b01 || arsize !== 3) fail("identifier, kind or size of a burst", asked);
        if (at_bus == commands) fail("a burst that no command asked for", asked);
        if (araddr !== begins[at_bus] + BYTES * bus_beat) fail("address of a burst", asked);
        if (araddr / (BURST * BYTES) != (araddr + arlen * BYTES) / (BURST * BYTES)) fail("border crossed", asked);
        if (bus_beat + arlen + 1 > lengths[at_bus]) fail("a burst reads beyond its command", asked);
        // asked for: at most what the FIFO has room for
        burst_address[asked] = araddr;
        burst_beats[asked] = arlen + 1;
        asked = asked + 1;
        bus_beat = bus_beat + arlen + 1;
        if (bus_beat == lengths[at_bus]) begin
          bus_beat = 0;
          at_bus = at_bus + 1;
        end
      end
      if (arvalid && !held_ar && dead) fail("a burst is issued after a stop or an error", asked);
      held_ar = arvalid && !arready;
      held_araddr = araddr;
      // -- beats at the sink
      if (beat_valid && dead) fail("a beat after a stop or an error", at_sink);
      if (held_beat && !dead && !bad_seen && (!beat_valid || beat !== held_data)) fail("a beat on offer was withdrawn", at_sink);
      if (beat_valid && sink_ready) begin
        if (at_sink == commands) fail("a beat too many", at_sink);
        if (beat !== content(begins[at_sink] + BYTES * sink_beat)) fail("a beat differs", at_sink);
        if (beat_last !== (sink_beat + 1 == lengths[at_sink])) fail("tlast", at_sink);
        if (memory_pace == 8 && sink_pace == 8 && command_pace == 0 && sink_beat == 0) begin
          if (cycle != arrival + 3) fail("latency of a beat", cycle - arrival);
          latency_checked = latency_checked + 1;
        end
        sink_beat = sink_beat + 1;
        compared = compared + 1;
        if (sink_beat == lengths[at_sink]) begin
          sink_beat = 0;
          at_sink = at_sink + 1;
        end
      end
      held_beat = beat_valid && !sink_ready;
      held_data = beat;
      // -- commands
      if (command_pace == 0 && arvalid && arready && cycle != command_cycle + 3) fail("latency of a burst", cycle);
      if (command_valid && command_ready) begin
        begins[commands] = command[31:0];
        lengths[commands] = command[47:32];
        commands = commands + 1;
        command_cycle = cycle;
      end
      // -- what ends everything
      // from the third cycle after a bad response, and from the one after a stop
      if (stop || bad_seen[1]) dead = 1;
      bad_seen = {bad_seen[0], rvalid && rresp[1]};
    end

  // the memory: bursts in order, beats with pauses
  always @(posedge clk) begin
    arready <= chance(memory_pace);
    if (!aresetn) begin
      rvalid <= 0;
    end else begin
      rvalid <= 0;
      rresp <= 0;
      if (answered != asked && chance(memory_pace)) begin
        rvalid <= 1;
        rdata <= content(burst_address[answered] + BYTES * answered_beat);
        rlast <= answered_beat + 1 == burst_beats[answered];
        rresp <= answered == bad_burst && answered_beat == 1 ? 2 : 0;
        if (answered_beat == 0 && answered + 1 == asked) arrival = cycle + 1;
        answered_beat = answered_beat + 1;
        if (answered_beat == burst_beats[answered]) begin
          answered_beat = 0;
          answered = answered + 1;
        end
      end
    end
    sink_ready <= chance(sink_pace);
  end

  task reset_for(input integer cycles);
    begin
      aresetn <= 0;
      stop <= 0;
      command_valid <= 0;
      repeat (cycles) @(posedge clk);
      aresetn <= 1;
      @(posedge clk);
    end
  endtask

  // a command, accepted
  task send(input [31:0] address, input [15:0] beats);
    begin
      command <= {16'd0, beats, address};
      command_valid <= 1;
      @(posedge clk);
      while (!(command_valid && command_ready)) @(posedge clk);
      command_valid <= 0;
      @(posedge clk);
    end
  endtask

  task finish_all;
    integer waited;
    begin
      waited = 0;
      while ((at_sink != commands || !idle) && waited < 20000) begin
        @(posedge clk);
        waited = waited + 1;
      end
      if (waited == 20000) fail("hung", at_sink);
    end
  endtask

  task send_many(input integer count);
    repeat (count) begin
      send({random(0) >> 12, 3'b000}, 1 + random(0) % (chance(1) ? 200 : 20));
      while (!chance(command_pace)) @(posedge clk);
    end
  endtask

  integer k;
  // always and not initial, where Verilator takes non-blocking assignments for blocking ones; `pass` ends it
  always begin
    reset_for(4);
    // one command at a time: latencies
    command_pace = 0;
    for (k = 0; k < 4; k = k + 1) begin
      send(32'h1000 * k + 32'h80, 4 + k);
      finish_all;
    end
    if (latency_checked == 0) fail("no latency was seen", 0);
    // full speed, then pauses on every channel
    command_pace = 8;
    send_many(60);
    finish_all;
    memory_pace = 4; sink_pace = 4; command_pace = 5;
    send_many(150);
    finish_all;
    sink_pace = 1;
    send_many(20);
    finish_all;
    // a slow start at the top of the address space's last page
    sink_pace = 6;
    send(32'hffffff80, 16);
    finish_all;
    for (k = 0; k < 24; k = k + 1) begin
      memory_pace = 2 + random(0) % 7;
      if (k % 2) begin
        // stop: what is outstanding comes, nothing is issued, commands are discarded
        send(32'h2000, 100);
        repeat (random(0) % 100) @(posedge clk);
        stop <= 1;
        @(posedge clk);
        send(32'h4000, 9);
      end else begin
        // a bad response in the second beat of a burst
        bad_burst = asked + 2;
        send(32'h8008, 90);
        send(32'h3000, 5);
      end
      repeat (1500) @(posedge clk);
      if (!idle || asked != ended) fail("not idle after a stop or an error", asked);
      if (error !== (k % 2 ? 0 : 2)) fail("error", error);
      if (k % 2 == 0 && error_address !== burst_address[bad_burst]) fail("address of the failing burst", error_address);
      // after a reset everything works again
      bad_burst = -1;
      reset_for(4);
      if (error !== 0) fail("a reset does not clear the error", error);
      send_many(10);
      finish_all;
    end
    pass(compared);
  end
endmodule
