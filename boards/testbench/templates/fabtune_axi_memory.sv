// AXI4 memory behind one or several ports, for simulation: latency, back pressure, outstanding bursts, checks.
//
// Each vector of pins concatenates the ports, port 0 in the lowest bits. Bursts of a port are answered in order with
// their ID, up to OUTSTANDING at a time. Beats of a write may arrive before the address; all beats are in the memory
// before the response. `errors` counts violations of AXI4 by a manager, and accesses outside the memory.

`timescale 1ns / 1ps

module fabtune_axi_memory #(
    parameter integer PORTS = 1,
    parameter integer ID = 1,  // bits of an identifier
    parameter integer DATA = 128,  // bits of a beat
    parameter integer WORDS = 1024,  // beats in the memory
    parameter integer OUTSTANDING = 16,  // a power of two
    parameter [63:0] BASE = 64'h1_0000_0000  // byte address of the memory
) (
    input wire aclk,
    input wire aresetn,
    input wire [31:0] latency,  // cycles from an address, or a write's last beat, to the first answer
    input wire [31:0] stall,  // percent of the cycles in which a channel pauses on this side
    input wire [31:0] seed,  // seed of the pauses

    input wire [PORTS*ID-1:0] awid,
    input wire [PORTS*64-1:0] awaddr,
    input wire [PORTS*8-1:0] awlen,
    input wire [PORTS*3-1:0] awsize,
    input wire [PORTS*2-1:0] awburst,
    input wire [PORTS-1:0] awvalid,
    output wire [PORTS-1:0] awready,

    input wire [PORTS*DATA-1:0] wdata,
    input wire [PORTS*DATA/8-1:0] wstrb,
    input wire [PORTS-1:0] wlast,
    input wire [PORTS-1:0] wvalid,
    output wire [PORTS-1:0] wready,

    output wire [PORTS*ID-1:0] bid,
    output wire [PORTS*2-1:0] bresp,
    output wire [PORTS-1:0] bvalid,
    input wire [PORTS-1:0] bready,

    input wire [PORTS*ID-1:0] arid,
    input wire [PORTS*64-1:0] araddr,
    input wire [PORTS*8-1:0] arlen,
    input wire [PORTS*3-1:0] arsize,
    input wire [PORTS*2-1:0] arburst,
    input wire [PORTS-1:0] arvalid,
    output wire [PORTS-1:0] arready,

    output wire [PORTS*ID-1:0] rid,
    output wire [PORTS*DATA-1:0] rdata,
    output wire [PORTS*2-1:0] rresp,
    output wire [PORTS-1:0] rlast,
    output wire [PORTS-1:0] rvalid,
    input wire [PORTS-1:0] rready,

    output wire [31:0] errors
);
  localparam integer BYTES = DATA / 8, SHIFT = $clog2(BYTES), INDEX = WORDS > 1 ? $clog2(WORDS) : 1;
  localparam [31:0] SHIFT_BITS = SHIFT;
  localparam [63:0] BEAT = 64'd1 << SHIFT, END = BASE + (64'(WORDS) << SHIFT);
  localparam [1:0] INCREMENTING = 2'd1, OKAY = 2'd0, DECODE_ERROR = 2'd3;
  localparam [63:0] PAGE = 4096;  // no burst crosses a multiple of this address

  reg [DATA-1:0] words[0:WORDS-1];
  reg [31:0] wrong = 0;

  assign errors = wrong;

  function automatic paused(input [9:0] draw);
    paused = {22'd0, draw} * 100 < stall * 1024;
  endfunction

  function automatic [63:0] drawn(input [63:0] last);
    reg [63:0] one, two;
    begin
      one = last ^ (last << 13);
      two = one ^ (one >> 7);
      drawn = two ^ (two << 17);
    end
  endfunction

  // number of errors of a burst; prints them
  function automatic [31:0] wrong_burst(input integer number, input [63:0] address, input [7:0] length,
                                         input [2:0] size, input [1:0] burst);
    reg [63:0] last;
    begin
      last = address + (({56'd0, length} + 64'd1) << SHIFT) - 64'd1;
      wrong_burst = 0;
      if (size != SHIFT_BITS[2:0] || burst != INCREMENTING || (address & (BEAT - 64'd1)) != 0) begin
        $display("port %0d: burst at %h is narrow, not incrementing or not aligned", number, address);
        wrong_burst = 1;
      end else if (address / PAGE != last / PAGE) begin
        $display("port %0d: burst at %h, %0d beats, crosses 4 KiB", number, address, {1'b0, length} + 9'd1);
        wrong_burst = 1;
      end else if (address < BASE || last >= END) begin
        $display("port %0d: burst at %h, %0d beats, is not in the memory", number, address, {1'b0, length} + 9'd1);
        wrong_burst = 1;
      end
    end
  endfunction

  function automatic held(input [63:0] address);
    held = address >= BASE && address < END;
  endfunction

  genvar port;
  generate
    for (port = 0; port < PORTS; port = port + 1) begin : ports
      integer cycle;
      reg [63:0] noise, at, offset;
      reg [31:0] delay;
      integer    lane;

      // reads: waiting addresses, and the offered beat
      reg [63:0] ar_address[0:OUTSTANDING-1];
      reg [7:0] ar_length[0:OUTSTANDING-1];
      reg [ID-1:0] ar_id[0:OUTSTANDING-1];
      integer ar_due[0:OUTSTANDING-1];
      integer ar_first, ar_count;
      reg [7:0] r_beat;
      reg ar_ready, r_valid, r_last;
      reg [ID-1:0] r_id;
      reg [DATA-1:0] r_data;
      reg [1:0] r_response;

      // writes: addresses and beats waiting for each other, and responses
      reg [63:0] aw_address[0:OUTSTANDING-1];
      reg [7:0] aw_length[0:OUTSTANDING-1];
      reg [ID-1:0] aw_id[0:OUTSTANDING-1];
      integer aw_first, aw_count;
      reg [7:0] w_beat;
      reg [DATA-1:0] w_data[0:OUTSTANDING-1];
      reg [BYTES-1:0] w_strobe[0:OUTSTANDING-1];
      reg w_last[0:OUTSTANDING-1];
      integer w_first, w_count;
      reg [ID-1:0] b_waiting[0:OUTSTANDING-1];
      reg [1:0] b_answer[0:OUTSTANDING-1];
      integer b_due[0:OUTSTANDING-1];
      integer b_first, b_count;
      reg aw_ready, w_ready, b_valid;
      reg [ID-1:0] b_id;
      reg [1:0] b_response, worst;
      reg [DATA-1:0] changed;

      // words that each channel offered in the last cycle without acceptance
      reg ar_held, aw_held, w_held;
      reg [ID+76:0] ar_was, aw_was;
      reg [DATA+BYTES:0] w_was;
      wire [ID+76:0] ar_now, aw_now;
      wire [DATA+BYTES:0] w_now;

      assign ar_now = {
        arid[ID*port+:ID], araddr[64*port+:64], arlen[8*port+:8], arsize[3*port+:3], arburst[2*port+:2]
      };
      assign aw_now = {
        awid[ID*port+:ID], awaddr[64*port+:64], awlen[8*port+:8], awsize[3*port+:3], awburst[2*port+:2]
      };
      assign w_now = {wdata[DATA*port+:DATA], wstrb[BYTES*port+:BYTES], wlast[port]};

      assign arready[port] = ar_ready;
      assign rvalid[port] = r_valid;
      assign rlast[port] = r_last;
      assign rid[ID*port+:ID] = r_id;
      assign rdata[DATA*port+:DATA] = r_data;
      assign rresp[2*port+:2] = r_response;
      assign awready[port] = aw_ready;
      assign wready[port] = w_ready;
      assign bvalid[port] = b_valid;
      assign bid[ID*port+:ID] = b_id;
      assign bresp[2*port+:2] = b_response;

      initial begin
        cycle = 0;
        noise = 64'd88172645463325252 + port;
      end

      always @(posedge aclk) begin
        cycle = cycle + 1;
        noise = drawn(cycle == 1 ? noise ^ {seed, 32'd0} : noise);
        delay = latency + (stall != 0 ? noise[31:0] % (latency + 1) : 0);
        if (!aresetn) begin
          ar_first = 0;
          ar_count = 0;
          r_beat   = 0;
          aw_first = 0;
          aw_count = 0;
          w_first  = 0;
          w_count  = 0;
          w_beat   = 0;
          b_first  = 0;
          b_count  = 0;
          worst    = OKAY;
          ar_ready <= 0;
          aw_ready <= 0;
          w_ready <= 0;
          r_valid <= 0;
          b_valid <= 0;
          ar_held = 0;
          aw_held = 0;
          w_held  = 0;
        end else begin
          if ((^{arvalid[port], awvalid[port], wvalid[port], rready[port], bready[port]}) === 1'bx) begin
            $display("port %0d: valid or ready is unknown", port);
            wrong = wrong + 1;
          end
          if ((ar_held && (!arvalid[port] || ar_now != ar_was)) || (aw_held && (!awvalid[port] || aw_now != aw_was))
              || (w_held && (!wvalid[port] || w_now != w_was))) begin
            $display("port %0d: what was on offer changed before it was taken", port);
            wrong = wrong + 1;
          end
          ar_held = arvalid[port] && !ar_ready;
          aw_held = awvalid[port] && !aw_ready;
          w_held  = wvalid[port] && !w_ready;
          ar_was  = ar_now;
          aw_was  = aw_now;
          w_was   = w_now;

          if (arvalid[port] && ar_ready) begin
            wrong = wrong + wrong_burst(
                port, araddr[64*port+:64], arlen[8*port+:8], arsize[3*port+:3], arburst[2*port+:2]
            );
            ar_address[(ar_first+ar_count)%OUTSTANDING] = araddr[64*port+:64];
            ar_length[(ar_first+ar_count)%OUTSTANDING] = arlen[8*port+:8];
            ar_id[(ar_first+ar_count)%OUTSTANDING] = arid[ID*port+:ID];
            ar_due[(ar_first+ar_count)%OUTSTANDING] = cycle + delay;
            ar_count = ar_count + 1;
          end
          if (!r_valid || rready[port]) begin
            r_valid <= 0;
            if (ar_count != 0 && cycle >= ar_due[ar_first] && !paused(noise[41:32])) begin
              at = ar_address[ar_first] + ({56'd0, r_beat} << SHIFT);
              offset = at - BASE;
              r_valid <= 1;
              r_id <= ar_id[ar_first];
              r_data <= held(at) ? words[offset[SHIFT+:INDEX]] : {BYTES{8'hA5}};
              r_response <= held(at) ? OKAY : DECODE_ERROR;
              r_last <= r_beat == ar_length[ar_first];
              if (r_beat == ar_length[ar_first]) begin
                r_beat   = 0;
                ar_first = (ar_first + 1) % OUTSTANDING;
                ar_count = ar_count - 1;
              end else begin
                r_beat = r_beat + 1;
              end
            end
          end
          ar_ready <= ar_count < OUTSTANDING && !paused(noise[51:42]);

          if (awvalid[port] && aw_ready) begin
            wrong = wrong + wrong_burst(
                port, awaddr[64*port+:64], awlen[8*port+:8], awsize[3*port+:3], awburst[2*port+:2]
            );
            aw_address[(aw_first+aw_count)%OUTSTANDING] = awaddr[64*port+:64];
            aw_length[(aw_first+aw_count)%OUTSTANDING] = awlen[8*port+:8];
            aw_id[(aw_first+aw_count)%OUTSTANDING] = awid[ID*port+:ID];
            aw_count = aw_count + 1;
          end
          if (wvalid[port] && w_ready) begin
            w_data[(w_first+w_count)%OUTSTANDING] = wdata[DATA*port+:DATA];
            w_strobe[(w_first+w_count)%OUTSTANDING] = wstrb[BYTES*port+:BYTES];
            w_last[(w_first+w_count)%OUTSTANDING] = wlast[port];
            w_count = w_count + 1;
          end
          if (aw_count != 0 && w_count != 0) begin
            at = aw_address[aw_first] + ({56'd0, w_beat} << SHIFT);
            offset = at - BASE;
            if (held(at)) begin
              changed = words[offset[SHIFT+:INDEX]];
              for (lane = 0; lane < BYTES; lane = lane + 1)
                if (w_strobe[w_first][lane]) changed[8*lane+:8] = w_data[w_first][8*lane+:8];
              words[offset[SHIFT+:INDEX]] = changed;
            end else begin
              worst = DECODE_ERROR;
            end
            if (w_last[w_first] != (w_beat == aw_length[aw_first])) begin
              $display("port %0d: wlast at beat %0d of the burst at %h", port, w_beat, aw_address[aw_first]);
              wrong = wrong + 1;
            end
            if (w_beat == aw_length[aw_first]) begin
              b_waiting[(b_first+b_count)%OUTSTANDING] = aw_id[aw_first];
              b_answer[(b_first+b_count)%OUTSTANDING] = worst;
              b_due[(b_first+b_count)%OUTSTANDING] = cycle + delay;
              b_count  = b_count + 1;
              w_beat   = 0;
              worst    = OKAY;
              aw_first = (aw_first + 1) % OUTSTANDING;
              aw_count = aw_count - 1;
            end else begin
              w_beat = w_beat + 1;
            end
            w_first = (w_first + 1) % OUTSTANDING;
            w_count = w_count - 1;
          end
          if (!b_valid || bready[port]) begin
            b_valid <= 0;
            if (b_count != 0 && cycle >= b_due[b_first] && !paused(noise[61:52])) begin
              b_valid <= 1;
              b_id <= b_waiting[b_first];
              b_response <= b_answer[b_first];
              b_first = (b_first + 1) % OUTSTANDING;
              b_count = b_count - 1;
            end
          end
          aw_ready <= aw_count + b_count < OUTSTANDING && !paused(noise[19:10]);
          w_ready <= w_count < OUTSTANDING && !paused(noise[9:0]);
        end
      end
    end
  endgenerate
endmodule
