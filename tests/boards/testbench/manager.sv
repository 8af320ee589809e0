// Managers on two ports of fabtune_axi_memory: +case=right moves data in all ways; the others break one rule each.

`timescale 1ns / 1ps

module manager;
  localparam integer ID = 4, DATA = 32, WORDS = 4096;
  localparam [63:0] BASE = 64'h2000;

  reg aclk = 0, aresetn = 0;
  always #5 aclk = ~aclk;

  reg [31:0] latency = 7, stall = 0, seed = 1;
  reg [2*ID-1:0] awid = 0, arid = 0;
  reg [127:0] awaddr = 0, araddr = 0;
  reg [15:0] awlen = 0, arlen = 0;
  reg [5:0] awsize = {2{3'd2}}, arsize = {2{3'd2}};
  reg [3:0] awburst = {2{2'd1}}, arburst = {2{2'd1}};
  reg [1:0] awvalid = 0, wvalid = 0, wlast = 0, bready = 0, arvalid = 0, rready = 0;
  reg [2*DATA-1:0] wdata = 0;
  reg [2*DATA/8-1:0] wstrb = 0;
  wire [1:0] awready, wready, bvalid, arready, rvalid, rlast;
  wire [2*ID-1:0] bid, rid;
  wire [3:0] bresp, rresp;
  wire [2*DATA-1:0] rdata;
  wire [31:0] errors;

  fabtune_axi_memory #(
      .PORTS(2),
      .ID(ID),
      .DATA(DATA),
      .WORDS(WORDS),
      .OUTSTANDING(4),
      .BASE(BASE)
  ) memory (
      .aclk(aclk),
      .aresetn(aresetn),
      .latency(latency),
      .stall(stall),
      .seed(seed),
      .awid(awid),
      .awaddr(awaddr),
      .awlen(awlen),
      .awsize(awsize),
      .awburst(awburst),
      .awvalid(awvalid),
      .awready(awready),
      .wdata(wdata),
      .wstrb(wstrb),
      .wlast(wlast),
      .wvalid(wvalid),
      .wready(wready),
      .bid(bid),
      .bresp(bresp),
      .bvalid(bvalid),
      .bready(bready),
      .arid(arid),
      .araddr(araddr),
      .arlen(arlen),
      .arsize(arsize),
      .arburst(arburst),
      .arvalid(arvalid),
      .arready(arready),
      .rid(rid),
      .rdata(rdata),
      .rresp(rresp),
      .rlast(rlast),
      .rvalid(rvalid),
      .rready(rready),
      .errors(errors)
  );

  // pins move while the clock falls
  reg taken;
  integer cycle = 0;
  always @(posedge aclk) cycle = cycle + 1;

  task address(input integer port, input writes, input [63:0] at, input [7:0] length, input [ID-1:0] id);
    begin
      if (writes) begin
        awaddr[64*port+:64] = at;
        awlen[8*port+:8] = length;
        awid[ID*port+:ID] = id;
        awvalid[port] = 1;
      end else begin
        araddr[64*port+:64] = at;
        arlen[8*port+:8] = length;
        arid[ID*port+:ID] = id;
        arvalid[port] = 1;
      end
      taken = 0;
      while (!taken) begin
        @(posedge aclk);
        taken = writes ? awready[port] : arready[port];
        @(negedge aclk);
      end
      if (writes) awvalid[port] = 0;
      else arvalid[port] = 0;
    end
  endtask

  task beat(input integer port, input [31:0] data, input [3:0] strobe, input last);
    begin
      wdata[DATA*port+:DATA] = data;
      wstrb[4*port+:4] = strobe;
      wlast[port] = last;
      wvalid[port] = 1;
      taken = 0;
      while (!taken) begin
        @(posedge aclk);
        taken = wready[port];
        @(negedge aclk);
      end
      wvalid[port] = 0;
    end
  endtask

  task answer(input integer port, input [ID-1:0] id, input [1:0] response);
    begin
      bready[port] = 1;
      taken = 0;
      while (!taken) begin
        @(posedge aclk);
        taken = bvalid[port];
        if (taken && (bid[ID*port+:ID] !== id || bresp[2*port+:2] !== response))
          $fatal(1, "FAIL: write %0d answers %0d to %0d", id, bresp[2*port+:2], bid[ID*port+:ID]);
        @(negedge aclk);
      end
      bready[port] = 0;
    end
  endtask

  task word(input integer port, input [ID-1:0] id, input [31:0] data, input last, input [1:0] response);
    begin
      rready[port] = 1;
      taken = 0;
      while (!taken) begin
        @(posedge aclk);
        taken = rvalid[port];
        if (taken && (rid[ID*port+:ID] !== id || rlast[port] !== last || rresp[2*port+:2] !== response
            || (response == 0 && rdata[DATA*port+:DATA] !== data)))
          $fatal(1, "FAIL: read %0d gives %h, last %b, response %0d, id %0d", id, rdata[DATA*port+:DATA], rlast[port],
                 rresp[2*port+:2], rid[ID*port+:ID]);
        @(negedge aclk);
      end
      rready[port] = 0;
    end
  endtask

  task right;
    integer number, first;
    begin
      // data before its address, whole and in parts; up to the end of a page
      for (number = 0; number < 4; number = number + 1) beat(0, 32'h11223300 + number, 4'hF, number == 3);
      address(0, 1, BASE + 64'h0FF0, 3, 9);
      answer(0, 9, 0);
      address(0, 1, BASE + 64'h1000, 1, 3);
      beat(0, 32'hAABBCCDD, 4'b0101, 0);
      beat(0, 32'hAABBCCDD, 4'b0000, 1);
      answer(0, 3, 0);
      if (memory.words[1023] !== 32'h11223303 || memory.words[1024] !== 32'h00BB00DD || memory.words[1025] !== 0)
        $fatal(1, "FAIL: %h %h %h in the memory", memory.words[1023], memory.words[1024], memory.words[1025]);
      // four bursts at once on the other port, answered in order after the latency
      first = cycle;
      for (number = 0; number < 4; number = number + 1) address(1, 0, BASE + 64'h0FF0 + 4 * number, 0, number + 5);
      // with a short latency the first one has left its place
      if (latency >= 40 && arready[1] !== 0) begin
        @(negedge aclk);
        if (arready[1] !== 0) $fatal(1, "FAIL: a fifth burst would be taken");
      end
      for (number = 0; number < 4; number = number + 1) word(1, number + 5, 32'h11223300 + number, 1, 0);
      if (cycle - first < latency) $fatal(1, "FAIL: answered after %0d cycles", cycle - first);
      address(1, 0, BASE + 64'h0FF0, 3, 1);
      for (number = 0; number < 4; number = number + 1) word(1, 1, 32'h11223300 + number, number == 3, 0);
      // four writes that wait for their data; no fifth is taken before one is answered
      for (number = 0; number < 4; number = number + 1) address(1, 1, BASE + 4 * number, 0, number + 8);
      @(negedge aclk);
      if (awready[1] !== 0) $fatal(1, "FAIL: a fifth write would be taken");
      for (number = 0; number < 4; number = number + 1) beat(1, 32'h55667700 + number, 4'hF, 1);
      for (number = 0; number < 4; number = number + 1) answer(1, number + 8, 0);
      if (memory.words[0] !== 32'h55667700 || memory.words[3] !== 32'h55667703)
        $fatal(1, "FAIL: %h %h in the memory", memory.words[0], memory.words[3]);
      if (errors !== 0) $fatal(1, "FAIL: %0d errors", errors);
      $display("PASS: %0d cycles", cycle);
    end
  endtask

  reg [8*32-1:0] which;
  integer at;
  initial begin
    if (!$value$plusargs("case=%s", which)) which = "right";
    at = $value$plusargs("stall=%d", stall);
    at = $value$plusargs("latency=%d", latency);
    for (at = 0; at < WORDS; at = at + 1) memory.words[at] = 0;
    repeat (4) @(negedge aclk);
    aresetn = 1;
    @(negedge aclk);
    if (which == "right") right;
    else begin
      if (which == "page") address(0, 0, BASE + 64'h0FF8, 2, 0);
      else if (which == "outside") begin
        address(0, 0, BASE + 4 * WORDS, 0, 2);
        word(0, 2, 0, 1, 3);
        beat(1, 5, 15, 1);
        address(1, 1, BASE - 4, 0, 2);
        answer(1, 2, 3);
      end else if (which == "narrow") begin
        arsize[2:0] = 1;
        address(0, 0, BASE, 0, 0);
      end else if (which == "fixed") begin
        awburst[1:0] = 0;
        address(0, 1, BASE, 0, 0);
      end else if (which == "unaligned") address(0, 0, BASE + 2, 0, 0);
      else if (which == "last") begin
        beat(0, 1, 15, 1);
        beat(0, 2, 15, 1);
        address(0, 1, BASE, 1, 0);
      end else if (which == "changed") begin
        stall = 100;
        repeat (2) @(negedge aclk);
        araddr = BASE;
        arvalid = 1;
        @(negedge aclk);
        araddr = BASE + 4;
      end else if (which == "fell") begin
        stall = 100;
        repeat (2) @(negedge aclk);
        wvalid = 1;
        @(negedge aclk);
        wvalid = 0;
      end
      repeat (8) @(negedge aclk);
      $display("ERRORS: %0d", errors);
    end
    $finish;
  end
endmodule
