// A small core with the ports and a few registers of the fine-tuning core, to try the compiled simulator on: it copies
// `count` beats from `source` to `destination`, and shows each beat that it writes on the monitor.
// `define TWO: reads on gmem0, writes on gmem1. Register `fault` breaks the protocol on purpose.
module memcopy (
    input aclk, input aresetn, output interrupt,
    input [7:0] s_axi_control_awaddr, input s_axi_control_awvalid, output s_axi_control_awready,
    input [31:0] s_axi_control_wdata, input [3:0] s_axi_control_wstrb, input s_axi_control_wvalid,
    output s_axi_control_wready, output [1:0] s_axi_control_bresp, output s_axi_control_bvalid,
    input s_axi_control_bready,
    input [7:0] s_axi_control_araddr, input s_axi_control_arvalid, output s_axi_control_arready,
    output [31:0] s_axi_control_rdata, output [1:0] s_axi_control_rresp, output s_axi_control_rvalid,
    input s_axi_control_rready,
`define MASTER(p) \
    output [0:0] p``_awid, output [63:0] p``_awaddr, output [7:0] p``_awlen, output [2:0] p``_awsize, \
    output [1:0] p``_awburst, output [3:0] p``_awcache, output [2:0] p``_awprot, output p``_awvalid, \
    input p``_awready, output [127:0] p``_wdata, output [15:0] p``_wstrb, output p``_wlast, output p``_wvalid, \
    input p``_wready, input [0:0] p``_bid, input [1:0] p``_bresp, input p``_bvalid, output p``_bready, \
    output [0:0] p``_arid, output [63:0] p``_araddr, output [7:0] p``_arlen, output [2:0] p``_arsize, \
    output [1:0] p``_arburst, output [3:0] p``_arcache, output [2:0] p``_arprot, output p``_arvalid, \
    input p``_arready, input [0:0] p``_rid, input [127:0] p``_rdata, input [1:0] p``_rresp, input p``_rlast, \
    input p``_rvalid, output p``_rready,
    `MASTER(m_axi_gmem0)
`ifdef TWO
    `MASTER(m_axi_gmem1)
`endif
    output reg monitor_valid, output reg [15:0] monitor_beat, output reg [127:0] monitor_data, output reg monitor_done
);
    localparam WLAST_EARLY = 1, WIDE_BURSTS = 2, AR_FALLS = 3, W_CHANGES = 4, NARROW = 5, NEVER_DONE = 6,
               LOOSE = 7, MONITOR_OUTSIDE = 8, WLAST_LATE = 9, AR_CHANGES = 10, HALF_STROBES = 11;

    // ---------------------------------------------------------------- registers
    reg [31:0] source, destination, count, fault, error_address, cycles;
    reg enable, pending, busy, done, error;
    reg [7:0] code;
    assign interrupt = pending & enable;

    reg aw_full, w_full, b_full, r_full;
    reg [7:0] aw;
    reg [31:0] w, r;
    assign s_axi_control_awready = !aw_full;
    assign s_axi_control_wready = !w_full;
    assign s_axi_control_bvalid = b_full;
    assign s_axi_control_bresp = 0;
    assign s_axi_control_arready = !r_full;
    assign s_axi_control_rvalid = r_full;
    assign s_axi_control_rdata = r;
    assign s_axi_control_rresp = 0;
    wire write = aw_full & w_full & !b_full;
    wire start = write & aw == 8'h00 & !busy;
    wire finish;

    always @(posedge aclk) begin
        if (s_axi_control_awvalid & !aw_full) begin aw_full <= 1; aw <= s_axi_control_awaddr; end
        if (s_axi_control_wvalid & !w_full) begin w_full <= 1; w <= s_axi_control_wdata; end
        if (s_axi_control_bready) b_full <= 0;
        if (write) begin
            aw_full <= 0; w_full <= 0; b_full <= 1;
            case (aw)
                8'h08: enable <= w[0];
                8'h0c: if (w[0]) pending <= 0;
                8'h18: source <= w;
                8'h1c: destination <= w;
                8'h34: count <= w;
                8'h44: fault <= w;
                default: ;
            endcase
        end
        if (s_axi_control_rready) r_full <= 0;
        if (s_axi_control_arvalid & !r_full) begin
            r_full <= 1;
            case (s_axi_control_araddr)
                8'h04: r <= {16'b0, code, 5'b0, error, done, busy};
                8'h08: r <= {31'b0, enable};
                8'h0c: r <= {31'b0, pending};
                8'h10: r <= error_address;
                8'h14: r <= 32'hc0b1e500;
                8'h48: r <= cycles;
                default: r <= 0;
            endcase
        end
        if (start) begin busy <= 1; done <= 0; error <= 0; code <= 0; cycles <= 0; end
        else if (busy) cycles <= cycles + 1;
        if (finish) begin busy <= 0; done <= 1; pending <= 1; end
        if (bad_read & !error) begin error <= 1; code <= r_resp == 3 ? 9 : 8; error_address <= r_address; end
        if (bad_write & !error) begin error <= 1; code <= b_resp == 3 ? 11 : 10; error_address <= 0; end
        if (!aresetn) begin
            {aw_full, w_full, b_full, r_full, enable, pending, busy, done, error, code} <= 0;
            {source, destination, count, fault} <= 0;
        end
    end

    // ---------------------------------------------------------------- reading: bursts of 16 into a buffer of 64 beats
    reg [127:0] buffer [0:63];
    reg [6:0] head, tail, room;  // room counts beats that no read has asked for
    reg [31:0] ar_address, ar_left, r_address;
    reg [4:0] ar_beats;
    reg ar_valid;
    wire [8:0] ar_page = 9'd256 - {1'b0, ar_address[11:4]};
    wire [31:0] ar_most = fault != WIDE_BURSTS & ar_page < 16 ? {23'b0, ar_page} : 32'd16;
    wire [31:0] ar_next = ar_left < ar_most ? ar_left : ar_most;
    wire ar_ready, r_valid;
    wire [127:0] r_data;
    wire [1:0] r_resp, b_resp;
    wire bad_read = r_valid & r_resp != 0;
    reg [6:0] back;

    always @(posedge aclk) begin
        back = pop ? 7'd1 : 7'd0;
        if (ar_valid & (ar_ready | fault == AR_FALLS)) ar_valid <= 0;
        if (ar_valid & !ar_ready & fault == AR_CHANGES) ar_address <= ar_address ^ 16;
        if (ar_valid & ar_ready) begin
            ar_address <= ar_address + {23'b0, ar_beats, 4'b0};
            ar_left <= ar_left - {27'b0, ar_beats};
        end
        if (!ar_valid & ar_left != 0 & {25'b0, room} >= ar_next) begin
            ar_valid <= 1;
            ar_beats <= ar_next[4:0];
            back = back - ar_next[6:0];
        end
        room <= room + back;
        if (r_valid) begin
            buffer[head[5:0]] <= r_data;
            head <= head + 1;
            r_address <= r_address + 16;
        end
        if (start) begin ar_address <= source; r_address <= source; ar_left <= count; head <= 0; room <= 64; end
        if (!aresetn) begin ar_valid <= 0; ar_left <= 0; head <= 0; room <= 64; end
    end

    // ---------------------------------------------------------------- writing: a burst once its beats are there
    reg [31:0] aw_address, aw_left, beat;
    reg [4:0] w_left;
    reg [7:0] unanswered, aw_length;
    reg aw_valid;
    wire [6:0] filled = head - tail;
    wire [8:0] aw_page = 9'd256 - {1'b0, aw_address[11:4]};
    wire [31:0] aw_most = aw_page < 16 ? {23'b0, aw_page} : 32'd16;
    wire [31:0] aw_next = aw_left < aw_most ? aw_left : aw_most;
    wire aw_ready, w_ready, b_valid;
    wire w_valid = w_left != 0;
    wire pop = w_valid & w_ready;
    wire bad_write = b_valid & b_resp != 0;
    wire made = !aw_valid & !w_valid & aw_left != 0 & {25'b0, filled} >= aw_next;
    assign finish = busy & !start & aw_left == 0 & !aw_valid & !w_valid & (unanswered == 0 | fault == LOOSE)
        & fault != NEVER_DONE;
    reg flip;

    always @(posedge aclk) begin
        flip <= !flip;
        if (aw_valid & aw_ready) aw_valid <= 0;
        if (made) begin
            aw_valid <= 1;
            aw_length <= aw_next[7:0] - 1;
            w_left <= aw_next[4:0];
        end
        if (aw_valid & aw_ready) begin
            aw_address <= aw_address + {20'b0, aw_length, 4'b0} + 16;
            aw_left <= aw_left - {24'b0, aw_length} - 1;
        end
        unanswered <= unanswered + {7'b0, made} - {7'b0, b_valid};
        monitor_valid <= pop;
        monitor_beat <= beat[15:0] + (fault == MONITOR_OUTSIDE ? 16'h8000 : 16'h0);
        monitor_data <= buffer[tail[5:0]];
        monitor_done <= pop & w_left == 1;
        if (pop) begin tail <= tail + 1; w_left <= w_left - 1; beat <= beat + 1; end
        if (start) begin aw_address <= destination; aw_left <= count; tail <= 0; beat <= 0; end
        if (!aresetn) begin
            {aw_valid, w_left, unanswered, aw_left, tail, monitor_valid, monitor_done, flip} <= 0;
        end
    end

    // ---------------------------------------------------------------- ports
`ifdef TWO
  `define OUT(x) m_axi_gmem1_``x
    assign m_axi_gmem0_awvalid = 0;
    assign m_axi_gmem0_awaddr = 0;
    assign m_axi_gmem0_awlen = 0;
    assign m_axi_gmem0_awsize = 4;
    assign m_axi_gmem0_wvalid = 0;
    assign m_axi_gmem0_wdata = 0;
    assign m_axi_gmem0_wstrb = 0;
    assign m_axi_gmem0_wlast = 0;
    assign m_axi_gmem1_arvalid = 0;
    assign m_axi_gmem1_araddr = 0;
    assign m_axi_gmem1_arlen = 0;
    assign m_axi_gmem1_arsize = 4;
    assign m_axi_gmem1_rready = 1;
    assign {m_axi_gmem1_arid, m_axi_gmem1_arburst, m_axi_gmem1_arcache, m_axi_gmem1_arprot} = 10'b0_01_0011_000;
    assign {m_axi_gmem0_awid, m_axi_gmem0_awburst, m_axi_gmem0_awcache, m_axi_gmem0_awprot} = 10'b0_01_0011_000;
    assign m_axi_gmem0_bready = 1;
`else
  `define OUT(x) m_axi_gmem0_``x
`endif
    assign m_axi_gmem0_arvalid = ar_valid;
    assign m_axi_gmem0_araddr = ar_address;
    assign m_axi_gmem0_arlen = {3'b0, ar_beats} - 1;
    assign m_axi_gmem0_arsize = fault == NARROW ? 2 : 4;
    assign {m_axi_gmem0_arid, m_axi_gmem0_arburst, m_axi_gmem0_arcache, m_axi_gmem0_arprot} = 10'b0_01_0011_000;
    assign m_axi_gmem0_rready = 1;
    assign ar_ready = m_axi_gmem0_arready;
    assign r_valid = m_axi_gmem0_rvalid;
    assign r_data = m_axi_gmem0_rdata;
    assign r_resp = m_axi_gmem0_rresp;

    assign `OUT(awvalid) = aw_valid;
    assign `OUT(awaddr) = aw_address;
    assign `OUT(awlen) = aw_length;
    assign `OUT(awsize) = 4;
    assign {`OUT(awid), `OUT(awburst), `OUT(awcache), `OUT(awprot)} = 10'b0_01_0011_000;
    assign `OUT(wvalid) = w_valid;
    assign `OUT(wdata) = buffer[tail[5:0]] ^ {127'b0, fault == W_CHANGES & flip};
    assign `OUT(wstrb) = fault == HALF_STROBES ? 16'h00ff : 16'hffff;
    assign `OUT(wlast) = fault == WLAST_EARLY ? w_left == 2 : fault == WLAST_LATE ? 1'b0 : w_left == 1;
    assign `OUT(bready) = 1;
    assign aw_ready = `OUT(awready);
    assign w_ready = `OUT(wready);
    assign b_valid = `OUT(bvalid);
    assign b_resp = `OUT(bresp);
endmodule
