// Bench of CORE without Python: the job in data/, through the registers and an AXI4 memory.
//
// Prints PASS and ends with status 0, or prints FAIL with the failing step and ends with $fatal. Lines of
// data/program.txt:
//
//   # ...                          a comment, to the end of the line
//   stage NAME                     name of the next steps, for messages
//   write OFFSET VALUE             write a register
//   address LOW HIGH VALUE         write two registers: the core's address of byte VALUE of the job's memory
//   wait                           until the interrupt is high
//   read OFFSET MASK VALUE         read a register: the bits in MASK must equal VALUE's
//   poll OFFSET MASK VALUE         the same, read until equal
//   memory PLACE BYTES WHAT        BYTES bytes at PLACE of the job's memory must equal the next words of
//                                  data/expected.hex
//   correct PLACE LABELS SAMPLES CLASSES STRIDE RIGHT  RIGHT of SAMPLES samples have the largest logit at the label:
//                                  logits of 32 bits at PLACE, STRIDE per sample, labels of a byte at LABELS
//
// All numbers are hexadecimal. data/memory.hex is the job's memory before the first stage. Arguments of the simulation:
// +data=FOLDER +latency=CYCLES +stall=PERCENT +seed=NUMBER +limit=CYCLES (of a wait) +waves (tb.vcd).

`timescale 1ns / 1ps

module tb #(
    parameter integer WORDS = @WORDS@,  // words of the job's memory
    parameter integer EXPECTED = @EXPECTED@,  // most words of data/expected.hex
    parameter integer IMAGE = @IMAGE@  // words of data/memory.hex
);
  localparam integer PORTS = @PORTS@, ID = @ID@, DATA = @DATA@, OFFSETS = @OFFSETS@;
  localparam integer BYTES = DATA / 8, SHIFT = $clog2(BYTES), INDEX = WORDS > 1 ? $clog2(WORDS) : 1;
  localparam [63:0] BASE = 64'h@BASE@;  // byte address of the job's memory: any within the core's address bits
  localparam real PERIOD = 10.0;

  reg aclk = 0, aresetn = 0;
  wire interrupt;

  reg [OFFSETS-1:0] awaddr = 0, araddr = 0;
  reg awvalid = 0, wvalid = 0, bready = 0, arvalid = 0, rready = 0;
  reg [31:0] wdata = 0;
  reg [3:0] wstrb = 0;
  wire awready, wready, bvalid, arready, rvalid;
  wire [1:0] bresp, rresp;
  wire [31:0] rdata;

@WIRES@

  reg [31:0] latency = 20, stall = 0, seed = 1;
  reg [63:0] limit = 10000000;
  wire [31:0] errors;

  always #(PERIOD / 2.0) aclk = ~aclk;

  @TOP@ dut (
@CONNECTIONS@
  );

  fabtune_axi_memory #(
      .PORTS(PORTS),
      .ID(ID),
      .DATA(DATA),
      .WORDS(WORDS),
      .BASE(BASE)
  ) memory (
@MEMORY@
      .aclk(aclk),
      .aresetn(aresetn),
      .latency(latency),
      .stall(stall),
      .seed(seed),
      .errors(errors)
  );

  reg [8*512-1:0] folder;
  reg [8*64-1:0] word, stage, what;
  reg [8*256-1:0] rest;
  reg [31:0] low, high, value, found, word_read;
  reg [63:0] place, size;
  reg [DATA-1:0] expected[0:EXPECTED-1];
  reg [DATA-1:0] golden, here;
  integer file, stages, next, read, byte_at, word_at;
  reg [63:0] cycles, started, begun, number, at;
  reg [31:0] noise;

  initial cycles = 0;
  always @(posedge aclk) cycles = cycles + 1;

  function automatic [31:0] drawn(input [31:0] last);
    reg [31:0] one, two;
    begin
      one   = last ^ (last << 13);
      two   = one ^ (one >> 17);
      drawn = two ^ (two << 5);
    end
  endfunction

  // whether the host pauses a channel in this cycle
  task draw(output pauses);
    begin
      noise  = drawn(noise);
      pauses = (noise >> 8) % 100 < stall;
    end
  endtask

  // The host changes its pins at falling edges, so that they are stable at rising edges in any simulator.
  task tick;
    begin
      @(negedge aclk);
      if (cycles - started > limit) $fatal(1, "FAIL: stage %0d, %0s: no answer in %0d cycles", stages, stage, limit);
      if (errors != 0) $fatal(1, "FAIL: stage %0d, %0s: AXI4, see above", stages, stage);
    end
  endtask

  // address and data in either order, or at once
  task write_register(input [31:0] offset, input [31:0] data);
    reg address_taken, data_taken, answered, pauses;
    begin
      address_taken = 0;
      data_taken = 0;
      answered = 0;
      started = cycles;
      awaddr = offset[OFFSETS-1:0];
      wdata = data;
      wstrb = 4'hF;
      while (!answered) begin
        draw(pauses);
        if (!address_taken && !pauses) awvalid = 1;
        draw(pauses);
        if (!data_taken && !pauses) wvalid = 1;
        draw(pauses);
        bready = address_taken && data_taken && !pauses;
        @(posedge aclk);
        address_taken = address_taken || (awvalid && awready);
        data_taken = data_taken || (wvalid && wready);
        answered = bvalid && bready;
        found = {30'd0, bresp};
        tick;
        awvalid = awvalid && !address_taken;
        wvalid = wvalid && !data_taken;
      end
      bready = 0;
      if (found != 0) $fatal(1, "FAIL: stage %0d, %0s: register %h answers with %0d", stages, stage, offset, found);
    end
  endtask

  task read_register(input [31:0] offset, output [31:0] data);
    reg address_taken, answered, pauses;
    begin
      address_taken = 0;
      answered = 0;
      started = cycles;
      araddr = offset[OFFSETS-1:0];
      while (!answered) begin
        draw(pauses);
        if (!address_taken && !pauses) arvalid = 1;
        draw(pauses);
        rready = address_taken && !pauses;
        @(posedge aclk);
        address_taken = address_taken || (arvalid && arready);
        answered = rvalid && rready;
        data = rdata;
        found = {30'd0, rresp};
        tick;
        arvalid = arvalid && !address_taken;
      end
      rready = 0;
      if (found != 0) $fatal(1, "FAIL: stage %0d, %0s: register %h answers with %0d", stages, stage, offset, found);
    end
  endtask

  task wait_for_interrupt;
    begin
      started = cycles;
      while (interrupt !== 1'b1) tick;
    end
  endtask

  // the first wrong byte of the job's results
  task compare_memory;
    begin
      for (number = 0; number < size; number = number + {32'd0, BYTES}) begin
        if (next >= EXPECTED) $fatal(1, "FAIL: data/expected.hex has more than EXPECTED words");
        golden = expected[next];
        at     = place + number;
        here   = memory.words[at[SHIFT+:INDEX]];
        next   = next + 1;
        for (byte_at = 0; byte_at < BYTES && number + {32'd0, byte_at} < size; byte_at = byte_at + 1)
          if (here[8*byte_at+:8] !== golden[8*byte_at+:8])
            $fatal(1, "FAIL: stage %0d, %0s: byte %0d of %0d of the %0s is %h, golden says %h", stages, stage,
                   number + {32'd0, byte_at}, size, what, here[8*byte_at+:8], golden[8*byte_at+:8]);
      end
    end
  endtask

  // samples with the largest logit, the first of equal logits, at the label
  task count_correct(input [31:0] logits, input [31:0] labels, input [31:0] samples, input [31:0] classes,
                     input [31:0] stride, input [31:0] golden_right);
    reg [31:0] right, sample, one, best;
    reg signed [31:0] largest, logit;
    begin
      right = 0;
      for (sample = 0; sample < samples; sample = sample + 1) begin
        best = 0;
        largest = 0;
        for (one = 0; one < classes; one = one + 1) begin
          at = {32'd0, logits} + 64'd4 * ({32'd0, sample} * {32'd0, stride} + {32'd0, one});
          here = memory.words[at[SHIFT+:INDEX]] >> (8 * at[SHIFT-1:0]);
          logit = here[31:0];
          if (one == 0 || logit > largest) begin
            best = one;
            largest = logit;
          end
        end
        at = {32'd0, labels} + {32'd0, sample};
        here = memory.words[at[SHIFT+:INDEX]] >> (8 * at[SHIFT-1:0]);
        if (here[7:0] == best[7:0]) right = right + 1;
      end
      $display("%0s: %0d of %0d samples are right, golden says %0d", stage, right, samples, golden_right);
      if (right !== golden_right) $fatal(1, "FAIL: stage %0d, %0s: another accuracy", stages, stage);
    end
  endtask

  initial begin
    if (!$value$plusargs("data=%s", folder)) folder = "data";
    read  = $value$plusargs("latency=%d", latency);
    read  = $value$plusargs("stall=%d", stall);
    read  = $value$plusargs("seed=%d", seed);
    read  = $value$plusargs("limit=%d", limit);
    noise = 32'd2463534242 ^ seed;
    if ($test$plusargs("waves")) begin
      $dumpfile("tb.vcd");
      $dumpvars(0, tb);
    end
    for (word_at = 0; word_at < WORDS; word_at = word_at + 1) memory.words[word_at] = 0;
    $readmemh({folder, "/memory.hex"}, memory.words, 0, IMAGE - 1);
    $readmemh({folder, "/expected.hex"}, expected);
    file = $fopen({folder, "/program.txt"}, "r");
    if (file == 0) $fatal(1, "FAIL: there is no %0s/program.txt", folder);

    repeat (16) @(negedge aclk);
    aresetn = 1;
    @(negedge aclk);
    stages = 0;
    next = 0;
    stage = "before";
    while ($fscanf(file, "%s", word) == 1) begin
      if (word == "stage") begin
        read   = $fscanf(file, "%s", stage);
        stages = stages + 1;
      end else if (word == "write") begin
        read = $fscanf(file, "%h %h", low, value);
        write_register(low, value);
      end else if (word == "address") begin
        read  = $fscanf(file, "%h %h %h", low, high, place);
        place = place + BASE;
        write_register(low, place[31:0]);
        write_register(high, place[63:32]);
      end else if (word == "wait") begin
        wait_for_interrupt;
      end else if (word == "poll") begin
        read = $fscanf(file, "%h %h %h", low, high, value);
        begun = cycles;
        read_register(low, word_read);
        while ((word_read & high) !== value) begin
          read_register(low, word_read);
          if (cycles - begun > limit)
            $fatal(1, "FAIL: stage %0d, %0s: register %h is %h after %0d cycles", stages, stage, low, word_read, limit);
        end
      end else if (word == "read") begin
        read = $fscanf(file, "%h %h %h", low, high, value);
        read_register(low, word_read);
        if ((word_read & high) !== value)
          $fatal(1, "FAIL: stage %0d, %0s: register %h is %h, golden says %h", stages, stage, low, word_read & high, value);
      end else if (word == "memory") begin
        read = $fscanf(file, "%h %h %s", place, size, what);
        compare_memory;
      end else if (word == "correct") begin
        read = $fscanf(file, "%h %h %h %h %h %h", place, low, high, value, found, word_read);
        count_correct(place[31:0], low, high, value, found, word_read);
      end else if (word == "#") begin
        read = $fgets(rest, file);
      end else begin
        $fatal(1, "FAIL: there is no step %0s in %0s/program.txt", word, folder);
      end
    end
    if (stages == 0) $fatal(1, "FAIL: %0s/program.txt has no stage", folder);
    $display("PASS: %0d stages, %0d cycles, latency %0d, stalls %0d %%", stages, cycles, latency, stall);
    $finish;
  end
endmodule
