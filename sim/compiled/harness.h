// The simulated system: clock, the core's control port, its monitor and its memory ports. The commands
// that drive it are in harness.cpp. Macros, in macros.h: PORTS (1 to 3), MONITOR, OPERATIONS, PARTS, MUTANTS, VCD,
// SAIF.
//
// A cycle is: inputs settle with the clock low, outputs are sampled, the clock rises, inputs change. Inputs never depend
// on outputs of the same cycle, so that no combinational path through the core can close a loop.

#ifndef FABTUNE_HARNESS_H
#define FABTUNE_HARNESS_H

#include "macros.h"

#include "Vtop.h"
#include "dram.h"
#include "verilated.h"
#ifdef VCD
#define WAVES
#include "verilated_vcd_c.h"
using Waves = VerilatedVcdC;
#endif
#ifdef SAIF
#define WAVES
#include "verilated_saif_c.h"
using Waves = VerilatedSaifC;
#endif

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr uint32_t COMMAND = 0x00, STATUS = 0x04;
constexpr uint64_t POLL = 256;  // cycles between two reads of the status while a command runs
constexpr unsigned MOST_PARTS = 32;

// Verilator renames the port "interrupt", which it takes for a reserved word; a version that does not works, too
template <class Top>
auto interrupt_of(const Top& top, int) -> decltype(top.__SYM__interrupt != 0) {
    return top.__SYM__interrupt != 0;
}
template <class Top>
auto interrupt_of(const Top& top, long) -> decltype(top.interrupt != 0) {
    return top.interrupt != 0;
}

struct Wait {
    uint64_t cycles;
    std::string ended;
    uint64_t read_beats[PORTS], write_beats[PORTS], due[PORTS], parts[MOST_PARTS];
};

struct Access {
    uint32_t offset, value;
    unsigned response;
};

using Clock = std::chrono::steady_clock;

class Harness {
   public:
    // the arguments hold the seed of what the core's memories hold at the start
    Harness(int count, char** arguments) {
        context.commandArgs(count, arguments);
        top.reset(new Vtop{&context});
        const Pins all[] = {
#define PINS(p)                                                                                                      \
    {&top->p##_awid,    &top->p##_awlen,   &top->p##_awsize, &top->p##_awburst, &top->p##_awvalid, &top->p##_awready, \
     &top->p##_wlast,   &top->p##_wvalid,  &top->p##_wready, &top->p##_bid,     &top->p##_bresp,   &top->p##_bvalid,  \
     &top->p##_bready,  &top->p##_arid,    &top->p##_arlen,  &top->p##_arsize,  &top->p##_arburst, &top->p##_arvalid, \
     &top->p##_arready, &top->p##_rid,     &top->p##_rresp,  &top->p##_rlast,   &top->p##_rvalid,  &top->p##_rready,  \
     &top->p##_awaddr,  &top->p##_araddr,  &top->p##_wstrb,  top->p##_wdata.data(), top->p##_rdata.data()}
            PINS(m_axi_gmem0),
#if PORTS > 1
            PINS(m_axi_gmem1),
#endif
#if PORTS > 2
            PINS(m_axi_gmem2),
#endif
        };
        for (unsigned i = 0; i < PORTS; ++i) {
            ports[i].pins = all[i], ports[i].number = i;
            ports[i].start(0);
        }
        control_random.state = 1;
#ifdef WAVES
        context.traceEverOn(true);
#endif
        top->aresetn = 0;
    }

    int run();

   private:
    VerilatedContext context;
    std::unique_ptr<Vtop> top;
#ifdef WAVES
    std::unique_ptr<Waves> waves;
    uint64_t waves_from = 0, half_period = 0;  // in cycles and in ps
    void show(unsigned half) {
        if (waves && waves->isOpen()) waves->dump((2 * (now - waves_from) + half) * half_period);
    }
#endif
    Random control_random;
    // outputs of the control port, sampled before the last clock edge
    struct {
        bool awready, wready, bvalid, arready, rvalid, interrupt;
        unsigned bresp, rresp;
        uint32_t rdata;
    } seen{};
    std::vector<uint8_t> shadow;
    std::FILE* trace = nullptr;
    uint64_t batches = 0, updates = 0, simulated = 0;
    bool ended = false;  // the last command has ended and no other has begun
    std::vector<uint64_t> operations = std::vector<uint64_t>(1 << 16);  // cycles by the operation at work
    uint64_t parts[MOST_PARTS] = {};                                    // cycles in which each was at work
    std::vector<Wait> waits;
    std::vector<Access> reads, refused;
    Clock::time_point begun = Clock::now();

    void cycle();
    void monitor();
    void reset(uint64_t cycles);
    bool stalled() { return (control_random.next() & 0xff) < settings.control; }
    unsigned write(uint32_t offset, uint32_t value, unsigned strobes);
    Access read(uint32_t offset);
    void wait(uint64_t limit, bool strict);
    void set(const std::string& name, double value);
    void command(const std::string& line);
    void report(const std::string& error);
};

#ifdef MONITOR
void Harness::monitor() {
    // consecutive beats of its image, a bit of monitor_valid for each
    const uint8_t* data = reinterpret_cast<const uint8_t*>(top->monitor_data.data());
    for (unsigned i = 0; i < sizeof top->monitor_data / BEAT; ++i) {
        if (!(top->monitor_valid >> i & 1)) continue;
        ++updates;
        if (shadow.empty()) continue;
        const uint64_t beat = top->monitor_beat + i;
        if ((beat + 1) * BEAT > shadow.size())
            fail(format("monitor: beat %" PRIu64 " is outside the monitor's image of %zu bytes (cycle %" PRIu64 ")",
                        beat, shadow.size(), now));
        std::memcpy(shadow.data() + beat * BEAT, data + i * BEAT, BEAT);
    }
    if (top->monitor_done) {
        ++batches;
        if (trace)
            if (std::fwrite(shadow.data(), 1, shadow.size(), trace) != shadow.size())
                fail("the trace cannot be written");
    }
}
#endif

inline void Harness::cycle() {
    top->aclk = 0;
    top->eval();
#ifdef WAVES
    show(0);
#endif
    if (!top->aresetn && settings.late_answers)
        for (Port& port : ports) port.answer();
    if (top->aresetn) {
        for (Port& port : ports) {
            if (ended) port.at_rest();
            port.sample();
        }
#ifdef MONITOR
        if (top->monitor_valid | top->monitor_done) monitor();
#endif
#ifdef OPERATIONS
        ++operations[top->monitor_operation];
#endif
#ifdef PARTS
        for (uint32_t at_work = top->monitor_busy; at_work; at_work &= at_work - 1) ++parts[__builtin_ctz(at_work)];
#endif
    }
    seen = {static_cast<bool>(top->s_axi_control_awready), static_cast<bool>(top->s_axi_control_wready),
            static_cast<bool>(top->s_axi_control_bvalid),  static_cast<bool>(top->s_axi_control_arready),
            static_cast<bool>(top->s_axi_control_rvalid),  interrupt_of(*top, 0),
            top->s_axi_control_bresp,                      top->s_axi_control_rresp,
            top->s_axi_control_rdata};
    top->aclk = 1;
    top->eval();
#ifdef WAVES
    show(1);
#endif
    for (Port& port : ports) port.drive();
    ++now, ++simulated;
}

void Harness::reset(uint64_t cycles) {
    top->aresetn = 0, ended = false;
    if (!settings.late_answers)
        for (Port& port : ports) port.reset();
    top->s_axi_control_awvalid = top->s_axi_control_wvalid = top->s_axi_control_arvalid = 0;
    top->s_axi_control_bready = top->s_axi_control_rready = 0;
    for (uint64_t i = 0; i < cycles; ++i) cycle();
    for (Port& port : ports) port.quiet();
    for (Port& port : ports) port.reset();  // the interconnect, too: what is outstanding does not outlive the reset
    top->aresetn = 1;
}

unsigned Harness::write(uint32_t offset, uint32_t value, unsigned strobes) {
    if (offset == COMMAND && strobes) ended = false;
    bool address = true, data = true;  // not taken by the core yet
    for (uint64_t start = now;;) {
        if (now - start > 10000) fail(format("s_axi_control: no answer to a write of 0x%02x in 10000 cycles", offset));
        // a valid stays high until it is taken; either channel may begin first
        if (address && !top->s_axi_control_awvalid && !stalled())
            top->s_axi_control_awvalid = 1, top->s_axi_control_awaddr = static_cast<CData>(offset);
        if (data && !top->s_axi_control_wvalid && !stalled())
            top->s_axi_control_wvalid = 1, top->s_axi_control_wdata = value,
            top->s_axi_control_wstrb = static_cast<CData>(strobes);
        top->s_axi_control_bready = !stalled();
        const bool bready = top->s_axi_control_bready, offered = seen.bvalid && now > start;
        cycle();
        if (offered && !seen.bvalid) fail("s_axi_control: BVALID fell before ready");
        if (seen.bvalid && (address || data))
            fail(format("s_axi_control: BVALID before the address and data of a write of 0x%02x were taken", offset));
        if (address && top->s_axi_control_awvalid && seen.awready) address = false, top->s_axi_control_awvalid = 0;
        if (data && top->s_axi_control_wvalid && seen.wready) data = false, top->s_axi_control_wvalid = 0;
        if (seen.bvalid && bready) {
            top->s_axi_control_bready = 0;
            return seen.bresp;
        }
    }
}

Access Harness::read(uint32_t offset) {
    bool address = true;
    for (uint64_t start = now;;) {
        if (now - start > 10000) fail(format("s_axi_control: no answer to a read of 0x%02x in 10000 cycles", offset));
        if (address && !top->s_axi_control_arvalid && !stalled())
            top->s_axi_control_arvalid = 1, top->s_axi_control_araddr = static_cast<CData>(offset);
        top->s_axi_control_rready = !stalled();
        const bool rready = top->s_axi_control_rready, offered = seen.rvalid && now > start;
        const uint32_t rdata = seen.rdata;
        cycle();
        if (offered && (!seen.rvalid || seen.rdata != rdata)) fail("s_axi_control: an R changed before ready");
        if (seen.rvalid && address) fail(format("s_axi_control: RVALID before the address 0x%02x was taken", offset));
        if (address && top->s_axi_control_arvalid && seen.arready) address = false, top->s_axi_control_arvalid = 0;
        if (seen.rvalid && rready) {
            top->s_axi_control_rready = 0;
            if (offset == STATUS && !(seen.rdata & 1)) ended = true;
            return {offset, seen.rdata, seen.rresp};
        }
    }
}

void Harness::wait(uint64_t limit, bool strict) {
    const uint64_t start = now;
    Wait result{0, "timeout", {}, {}, {}, {}};
    const auto count = [&] {  // from the start to now, where it is called twice
        const auto since = [](uint64_t& from, uint64_t to) { from = to - from; };
        for (unsigned i = 0; i < PORTS; ++i) {
            const Port::State& s = ports[i].s;
            since(result.read_beats[i], s.read_beats), since(result.write_beats[i], s.write_beats);
            since(result.due[i], s.busy);
        }
        for (unsigned i = 0; i < MOST_PARTS; ++i) since(result.parts[i], parts[i]);
    };
    count();
    for (uint64_t next = start; now - start < limit;) {
        if (now >= next) {
            next = now + POLL;
            const Access status = read(STATUS);
            if (seen.interrupt) break;
            if (!(status.value & 1)) {
                result.ended = "idle";
                break;
            }
        }
        if (settings.probe && control_random.next() % 64 == 0) read(static_cast<uint32_t>(control_random.next() & 0xfc));
        cycle();
        if (seen.interrupt) break;
    }
    if (seen.interrupt) result.ended = "interrupt";
    if (seen.interrupt) ended = true;
    result.cycles = now - start;
    count();
    waits.push_back(result);
    if (strict && result.ended == "timeout") fail(format("still busy after %" PRIu64 " cycles", result.cycles));
}

}  // namespace

#endif
