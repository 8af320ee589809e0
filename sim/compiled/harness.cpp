// A whole job on an emitted core, with no Python in the loop: a clock, a memory behind each AXI port, the control
// port's master, and a script that says what to do. Compiled together with Verilator's model of the core by
// sim/compiled/simulation.py, which also writes the scripts. Macros: PORTS (1 or 2), SAVABLE, WAVES.
//
// A cycle is: inputs settle with the clock low, outputs are sampled, the clock rises, inputs change. What the harness
// drives never depends on outputs of the same cycle, so that no path through the core can close a loop.

// the model is compiled with less
#pragma GCC optimize("O3")

#include "Vtop.h"
#include "dram.h"
#include "verilated.h"
#ifdef SAVABLE
#include "verilated_save.h"
#endif
#ifdef WAVES
#include "verilated_vcd_c.h"
#endif

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr uint32_t STATUS = 0x04;
constexpr uint64_t POLL = 256;  // cycles between two reads of the status while a command runs

// Verilator takes "interrupt" for a reserved word and renames it; a version that does not would be as good
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
    uint64_t read_beats[PORTS], write_beats[PORTS];
};

struct Access {
    uint32_t offset, value;
    unsigned response;
};

using Clock = std::chrono::steady_clock;

class Harness {
   public:
    explicit Harness(const char* script) : script_name(script), top(new Vtop{&context}) {
        const Pins all[] = {
#define PINS(p)                                                                                                      \
    {&top->p##_awid,    &top->p##_awlen,   &top->p##_awsize, &top->p##_awburst, &top->p##_awvalid, &top->p##_awready, \
     &top->p##_wlast,   &top->p##_wvalid,  &top->p##_wready, &top->p##_bid,     &top->p##_bresp,   &top->p##_bvalid,  \
     &top->p##_bready,  &top->p##_arid,    &top->p##_arlen,  &top->p##_arsize,  &top->p##_arburst, &top->p##_arvalid, \
     &top->p##_arready, &top->p##_rid,     &top->p##_rresp,  &top->p##_rlast,   &top->p##_rvalid,  &top->p##_rready,  \
     &top->p##_awaddr,  &top->p##_araddr,  &top->p##_wstrb,  top->p##_wdata.data(), top->p##_rdata.data()}
            PINS(m_axi_gmem0),
#if PORTS == 2
            PINS(m_axi_gmem1),
#endif
        };
        for (unsigned i = 0; i < PORTS; ++i) {
            ports[i].pins = all[i], ports[i].number = i;
            ports[i].start(0);
        }
        control_random.state = 1;
        top->aresetn = 0;
    }

    std::string run();
    void report(const std::string& error);

   private:
    std::string script_name;
    VerilatedContext context;
    std::unique_ptr<Vtop> top;
#ifdef WAVES
    std::unique_ptr<VerilatedVcdC> waves;
#endif
    Random control_random;
    // outputs of the control port before the last edge
    struct {
        bool awready, wready, bvalid, arready, rvalid, interrupt;
        unsigned bresp, rresp;
        uint32_t rdata;
    } seen{};
    std::vector<uint8_t> shadow;
    std::FILE* trace = nullptr;
    uint64_t trace_every = 1, batches = 0, updates = 0, simulated = 0;
    std::vector<Wait> waits;
    std::vector<Access> reads, refused;
    Clock::time_point begun = Clock::now();

    void cycle();
    void monitor();
    void reset(uint64_t cycles);
    bool stalled() { return (control_random.next() & 0xff) < settings.control; }
    unsigned write(uint32_t offset, uint32_t value);
    Access read(uint32_t offset);
    void wait(uint64_t limit, bool strict);
    void set(const std::string& name, double value);
    void save(const std::string& file);
    void restore(const std::string& file);
    void command(const std::string& line);
};

void Harness::monitor() {
    // neighbouring beats, a bit of valid for each
    const uint8_t* data = reinterpret_cast<const uint8_t*>(top->monitor_data.data());
    for (unsigned i = 0; i < sizeof top->monitor_data / BEAT; ++i) {
        if (!(top->monitor_valid >> i & 1)) continue;
        ++updates;
        if (shadow.empty()) continue;
        const uint64_t beat = top->monitor_beat + i;
        if ((beat + 1) * BEAT > shadow.size())
            fail(format("monitor: beat %" PRIu64 " is outside the adapters' image of %zu bytes (cycle %" PRIu64 ")",
                        beat, shadow.size(), now));
        std::memcpy(shadow.data() + beat * BEAT, data + i * BEAT, BEAT);
    }
    if (top->monitor_done) {
        ++batches;
        if (trace && batches % trace_every == 0)
            if (std::fwrite(shadow.data(), 1, shadow.size(), trace) != shadow.size())
                fail("the trace cannot be written");
    }
}

inline void Harness::cycle() {
    top->aclk = 0;
    top->eval();
#ifdef WAVES
    if (waves) waves->dump(now * 10);
#endif
    if (top->aresetn) {
        for (Port& port : ports) port.sample();
        if (top->monitor_valid | top->monitor_done) monitor();
    }
    seen = {static_cast<bool>(top->s_axi_control_awready), static_cast<bool>(top->s_axi_control_wready),
            static_cast<bool>(top->s_axi_control_bvalid),  static_cast<bool>(top->s_axi_control_arready),
            static_cast<bool>(top->s_axi_control_rvalid),  interrupt_of(*top, 0),
            top->s_axi_control_bresp,                      top->s_axi_control_rresp,
            top->s_axi_control_rdata};
    top->aclk = 1;
    top->eval();
#ifdef WAVES
    if (waves) waves->dump(now * 10 + 5);
#endif
    for (Port& port : ports) port.drive();
    ++now, ++simulated;
}

void Harness::reset(uint64_t cycles) {
    top->aresetn = 0;
    for (Port& port : ports) port.reset();
    top->s_axi_control_awvalid = top->s_axi_control_wvalid = top->s_axi_control_arvalid = 0;
    top->s_axi_control_bready = top->s_axi_control_rready = 0;
    for (uint64_t i = 0; i < cycles; ++i) cycle();
    for (Port& port : ports) port.quiet();
    top->aresetn = 1;
}

unsigned Harness::write(uint32_t offset, uint32_t value) {
    bool address = true, data = true;  // still to hand over
    for (uint64_t start = now;;) {
        if (now - start > 10000) fail(format("s_axi_control: no answer to a write of 0x%02x in 10000 cycles", offset));
        // a valid that is up stays up; new ones may come late, in either order
        if (address && !top->s_axi_control_awvalid && !stalled())
            top->s_axi_control_awvalid = 1, top->s_axi_control_awaddr = static_cast<CData>(offset);
        if (data && !top->s_axi_control_wvalid && !stalled())
            top->s_axi_control_wvalid = 1, top->s_axi_control_wdata = value, top->s_axi_control_wstrb = 15;
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
            return {offset, seen.rdata, seen.rresp};
        }
    }
}

void Harness::wait(uint64_t limit, bool strict) {
    const uint64_t start = now;
    Wait result{0, "timeout", {}, {}};
    for (unsigned i = 0; i < PORTS; ++i)
        result.read_beats[i] = ports[i].s.read_beats, result.write_beats[i] = ports[i].s.write_beats;
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
        cycle();
        if (seen.interrupt) break;
    }
    if (seen.interrupt) result.ended = "interrupt";
    result.cycles = now - start;
    for (unsigned i = 0; i < PORTS; ++i) {
        result.read_beats[i] = ports[i].s.read_beats - result.read_beats[i];
        result.write_beats[i] = ports[i].s.write_beats - result.write_beats[i];
    }
    waits.push_back(result);
    if (strict && result.ended == "timeout") fail(format("still busy after %" PRIu64 " cycles", result.cycles));
}

// ------------------------------------------------------------------ saved states

#ifdef SAVABLE
constexpr uint64_t PIECE = 1 << 16;

void Harness::save(const std::string& file) {
    VerilatedSave out;
    out.open(file);
    if (!out.isOpen()) fail(file + ": cannot be written");
    out << *top;
    for (Port& port : ports) out.write(&port.s, sizeof port.s);
    uint64_t bytes = shadow.size();
    out << now << control_random.state << batches << updates << memory.size << bytes;
    out.write(shadow.data(), shadow.size());
    for (uint64_t at = 0; at < memory.size; at += PIECE) {  // zeros are left out
        const uint64_t length = std::min(PIECE, memory.size - at);
        const uint8_t* piece = memory.bytes + at;
        if (!piece[0] && !std::memcmp(piece, piece + 1, length - 1)) continue;
        out << at;
        out.write(piece, length);
    }
    out << memory.size;
    out.close();
}

void Harness::restore(const std::string& file) {
    VerilatedRestore in;
    in.open(file);
    if (!in.isOpen()) fail(file + ": cannot be read");
    in >> *top;
    for (Port& port : ports) in.read(&port.s, sizeof port.s);
    uint64_t size = 0, bytes = 0, at = 0;
    in >> now >> control_random.state >> batches >> updates >> size >> bytes;
    shadow.resize(bytes);
    in.read(shadow.data(), shadow.size());
    // a session may have a larger memory than the one that was saved
    memory.make(std::max(size, memory.size));
    for (in >> at; at < size; in >> at) in.read(memory.bytes + at, std::min(PIECE, size - at));
    in.close();
}
#else
void Harness::save(const std::string&) { fail("save: build the simulator as savable"); }
void Harness::restore(const std::string&) { fail("restore: build the simulator as savable"); }
#endif

// ------------------------------------------------------------------ the script

void Harness::set(const std::string& name, double value) {
    const std::map<std::string, uint64_t*> numbers{{"latency", &settings.latency},
                                                   {"jitter", &settings.jitter},
                                                   {"outstanding", &settings.outstanding}};
    const std::map<std::string, uint32_t*> shares{{"stall_ar", &settings.ar}, {"stall_aw", &settings.aw},
                                                  {"stall_w", &settings.w},   {"stall_r", &settings.r},
                                                  {"stall_b", &settings.b},   {"stall_control", &settings.control}};
    if (name == "duty")
        settings.duty = static_cast<uint32_t>(value * 65536 + 0.5);
    else if (name == "hazards")
        settings.hazards = value != 0;
    else if (name == "seed")
        for (Port& port : ports) {
            port.start(static_cast<uint64_t>(value));
            control_random.state = static_cast<uint64_t>(value) + 1;
        }
    else if (numbers.count(name))
        *numbers.at(name) = static_cast<uint64_t>(value);
    else if (shares.count(name))
        *shares.at(name) = static_cast<uint32_t>(value * 256 + 0.5);
    else
        fail("no setting called " + name);
    if (settings.outstanding < 1 || settings.outstanding > QUEUE) fail(format("outstanding is 1 to %" PRIu64, QUEUE));
}

// words of a line; the last may be a file's name, which reaches to the end of the line
struct Words {
    std::string rest;
    std::string word() {
        const size_t from = std::min(rest.find_first_not_of(' '), rest.size());
        const size_t to = std::min(rest.find(' ', from), rest.size());
        const std::string one = rest.substr(from, to - from);
        rest.erase(0, std::min(to + 1, rest.size()));
        if (one.empty()) fail("a word is missing");
        return one;
    }
    uint64_t number() {
        const std::string one = word();
        char* end = nullptr;
        const uint64_t value = std::strtoull(one.c_str(), &end, 0);
        if (*end) fail(one + " is not a number");
        return value;
    }
    std::string file() {
        if (rest.empty()) fail("a file's name is missing");
        return rest;
    }
};

void Harness::command(const std::string& line) {
    Words words{line};
    const std::string name = words.word();
    if (name == "write") {
        const uint32_t offset = static_cast<uint32_t>(words.number()), value = static_cast<uint32_t>(words.number());
        const unsigned response = write(offset, value);
        if (response) refused.push_back({offset, value, response});
    } else if (name == "read") {
        reads.push_back(read(static_cast<uint32_t>(words.number())));
    } else if (name == "wait" || name == "try_wait") {
        wait(words.number(), name == "wait");
    } else if (name == "cycles") {
        for (uint64_t i = words.number(); i; --i) cycle();
    } else if (name == "reset") {
        reset(words.number());
    } else if (name == "memory") {
        memory.make(words.number());
    } else if (name == "load") {
        const uint64_t address = words.number();
        load(address, words.file());
    } else if (name == "dump") {
        const uint64_t address = words.number(), bytes = words.number();
        dump(address, bytes, words.file());
    } else if (name == "save") {
        save(words.file());
    } else if (name == "restore") {
        restore(words.file());
    } else if (name == "shadow") {
        shadow = contents(words.file());
    } else if (name == "trace") {
        trace_every = std::max<uint64_t>(1, words.number());
        if (trace) std::fclose(trace);
        trace = std::fopen(words.file().c_str(), "wb");
        if (!trace) fail(words.file() + ": " + std::strerror(errno));
        if (shadow.empty()) fail("a trace needs a shadow: write the adapters' image to a file and name it first");
    } else if (name == "set") {
        const std::string what = words.word();
        set(what, std::strtod(words.word().c_str(), nullptr));
    } else if (name == "fault") {
        const std::string kind = words.word();
        const uint64_t first = words.number(), bytes = words.number();
        const std::string response = words.word();
        if ((kind != "read" && kind != "write") || (response != "slverr" && response != "decerr"))
            fail("a fault is: read or write, address, bytes, slverr or decerr");
        settings.faults.push_back({kind == "write", first, first + bytes, response == "slverr" ? SLVERR : DECERR});
    } else if (name == "no_faults") {
        settings.faults.clear();
    } else if (name == "waves") {
#ifdef WAVES
        waves.reset(new VerilatedVcdC);
        context.traceEverOn(true);
        top->trace(waves.get(), 99);
        waves->open(words.file().c_str());
#else
        fail("waves: build the simulator with waves");
#endif
    } else {
        fail("no command called " + name);
    }
}

std::string Harness::run() {
    std::ifstream script(script_name);
    if (!script) return script_name + ": cannot be read";
    std::string line, error;
    memory.make(0);
    for (unsigned number = 1; error.empty() && std::getline(script, line); ++number) {
        if (line.empty() || line[0] == '#') continue;
        try {
            command(line);
        } catch (const std::exception& problem) {
            error = format("line %u, %s: ", number, line.substr(0, line.find(' ')).c_str()) + problem.what();
        }
    }
    if (trace && std::fclose(trace) && error.empty()) error = "the trace cannot be written";
#ifdef WAVES
    if (waves) waves->close();
#endif
    top->final();
    return error;
}

void Harness::report(const std::string& error) {
    const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
    const auto accesses = [](const char* name, const std::vector<Access>& all) {
        std::printf("\"%s\": [", name);
        for (size_t i = 0; i < all.size(); ++i)
            std::printf("%s{\"offset\": %u, \"value\": %u, \"response\": %u}", i ? ", " : "", all[i].offset,
                        all[i].value, all[i].response);
        std::printf("], ");
    };
    const auto numbers = [](const char* name, const uint64_t* all) {
        std::printf(", \"%s\": [", name);
        for (unsigned i = 0; i < PORTS; ++i) std::printf("%s%" PRIu64, i ? ", " : "", all[i]);
        std::printf("]");
    };
    std::printf("{\"cycles\": %" PRIu64 ", \"simulated\": %" PRIu64 ", \"seconds\": %.6f, ", now, simulated, seconds);
    std::printf("\"batches\": %" PRIu64 ", \"updates\": %" PRIu64 ", ", batches, updates);
    accesses("reads", reads);
    accesses("refused_writes", refused);
    std::printf("\"waits\": [");
    for (size_t i = 0; i < waits.size(); ++i) {
        std::printf("%s{\"cycles\": %" PRIu64 ", \"ended\": \"%s\"", i ? ", " : "", waits[i].cycles,
                    waits[i].ended.c_str());
        numbers("read_beats", waits[i].read_beats);
        numbers("write_beats", waits[i].write_beats);
        std::printf("}");
    }
    std::printf("], \"ports\": [");
    for (unsigned i = 0; i < PORTS; ++i) {
        const Port::State& s = ports[i].s;
        const double beats = static_cast<double>(s.read_beats + s.write_beats);
        std::printf("%s{\"read_beats\": %" PRIu64 ", \"write_beats\": %" PRIu64 ", \"read_bursts\": %" PRIu64
                    ", \"write_bursts\": %" PRIu64 ", \"faulty_beats\": %" PRIu64 ", \"duty\": %.6f, \"use\": %.6f}",
                    i ? ", " : "", s.read_beats, s.write_beats, s.reads_made, s.writes_made, s.refused,
                    s.busy ? beats / static_cast<double>(s.busy) : 0.0, now ? beats / static_cast<double>(now) : 0.0);
    }
    std::string escaped;
    for (const char c : error) {
        if (c == '"' || c == '\\') escaped += '\\';
        escaped += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
    std::printf("], \"error\": %s}\n", error.empty() ? "null" : ('"' + escaped + '"').c_str());
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 2) {
        std::fprintf(stderr, "usage: %s SCRIPT\n", arguments[0]);
        return 2;
    }
    Harness harness(arguments[1]);
    const std::string error = harness.run();
    harness.report(error);
    return error.empty() ? 0 : 1;
}
