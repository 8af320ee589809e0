// Memory behind a core's AXI ports, with latency, duty, stalls and faults as set, and a check of the AXI rules that the
// core must keep. Included by harness.h.

#ifndef FABTUNE_DRAM_H
#define FABTUNE_DRAM_H

#include "verilated.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#if PORTS != 1 && PORTS != 2
#error "PORTS is 1 or 2"
#endif

namespace {

constexpr uint64_t BEAT = 16, PAGE = 4096, QUEUE = 64;
constexpr uint8_t OKAY = 0, SLVERR = 2, DECERR = 3;

std::string format(const char* pattern, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, pattern);
    std::vsnprintf(text, sizeof text, pattern, arguments);
    va_end(arguments);
    return text;
}

[[noreturn]] void fail(const std::string& message) { throw std::runtime_error(message); }

// ------------------------------------------------------------------ what the script sets

struct Fault {
    bool write;
    uint64_t first, end;
    uint8_t response;
};

struct Settings {
    uint64_t latency = 100, jitter = 31, outstanding = 16;
    uint32_t duty = 65536;                                      // in 1/65536
    uint32_t ar = 0, aw = 0, w = 0, r = 0, b = 0, control = 0;  // stall probabilities in 1/256
    bool hazards = true;
    std::vector<Fault> faults;
} settings;

struct Random {
    uint64_t state = 0;
    uint64_t next() {  // splitmix64
        uint64_t z = (state += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
};

struct Memory {
    uint8_t* bytes = nullptr;
    uint64_t size = 0;

    void make(uint64_t wanted) {
        if (bytes) munmap(bytes, size);
        size = wanted;
        // anonymous pages take no memory until they are written
        void* made = mmap(nullptr, std::max(size, BEAT), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (made == MAP_FAILED) fail(format("no memory of %" PRIu64 " bytes", size));
        bytes = static_cast<uint8_t*>(made);
    }

    uint8_t response(bool write, uint64_t address) const {
        uint8_t worst = address + BEAT > size ? DECERR : OKAY;
        for (const Fault& fault : settings.faults)
            if (fault.write == write && address < fault.end && address + BEAT > fault.first)
                worst = std::max(worst, fault.response);
        return worst;
    }
} memory;

uint64_t now = 0;  // clock cycles since the start

// ------------------------------------------------------------------ one AXI port of the core

struct Burst {
    uint64_t address, due;
    uint32_t beats, done;
    uint8_t response;
    uint64_t end() const { return address + beats * BEAT; }
};

struct Queue {
    Burst burst[QUEUE];
    uint64_t head, count;
    Burst& front() { return burst[head]; }
    Burst& at(uint64_t i) { return burst[(head + i) % QUEUE]; }
    void push(const Burst& one) { burst[(head + count++) % QUEUE] = one; }
    void pop() { head = (head + 1) % QUEUE, --count; }
};

struct Pins {
    CData *awid, *awlen, *awsize, *awburst, *awvalid, *awready, *wlast, *wvalid, *wready;
    CData *bid, *bresp, *bvalid, *bready;
    CData *arid, *arlen, *arsize, *arburst, *arvalid, *arready, *rid, *rresp, *rlast, *rvalid, *rready;
    IData *awaddr, *araddr;
    SData* wstrb;
    EData *wdata, *rdata;
};

struct Address {
    uint32_t address;
    uint8_t id, length, size, burst;
    bool operator!=(const Address& o) const {
        return address != o.address || id != o.id || length != o.length || size != o.size || burst != o.burst;
    }
};

struct Data {
    uint32_t words[4];
    uint16_t strobes;
    uint8_t last;
};

struct Port {
    Pins pins;
    unsigned number;

    struct State {  // trivially copyable: a saved state is a copy of its bytes
        Random random;
        Queue reads, writes, answers;
        // values of the pins in this cycle
        uint8_t arready, awready, wready, rvalid, rlast, rresp, bvalid, bresp;
        uint32_t rdata[4];
        uint8_t granted;    // the duty allows a write beat, which has not come yet
        uint8_t last_read;  // the last beat was a read: a write goes first next time
        // transfers that the core offered and the memory did not take: they must be unchanged in the next cycle
        uint8_t ar_held, aw_held, w_held;
        Address ar, aw;
        Data w;
        uint64_t read_beats, write_beats, reads_made, writes_made, busy, refused;
    } s;
    static_assert(std::is_trivially_copyable<State>::value, "the state is saved as bytes");

    void start(uint64_t seed) {
        std::memset(static_cast<void*>(&s), 0, sizeof s);
        s.random.state = seed * 0x9e3779b97f4a7c15u + number;
        s.random.next();
    }

    void reset() {  // counters and the random sequence continue
        s.reads.count = s.writes.count = s.answers.count = 0;
        s.arready = s.awready = s.wready = s.rvalid = s.bvalid = s.granted = 0;
        s.ar_held = s.aw_held = s.w_held = 0;
        drive();
    }

    [[noreturn]] void broken(const std::string& what) {
        fail(format("m_axi_gmem%u: %s (cycle %" PRIu64 ")", number, what.c_str(), now));
    }

    void quiet() {
        if (*pins.arvalid || *pins.awvalid || *pins.wvalid) broken("a valid is high in reset");
    }

    uint64_t due() { return now + settings.latency + (settings.jitter ? s.random.next() % (settings.jitter + 1) : 0); }

    void check(const char* channel, const Address& a) {
        const auto where = format("%s burst of %u beats at 0x%08x ", channel, a.length + 1, a.address);
        if (a.size != 4) broken(where + format("has size %u, not 4 (16 bytes)", a.size));
        if (a.burst != 1) broken(where + format("has type %u, not 1 (INCR)", a.burst));
        if (a.id) broken(where + format("has id %u, not 0", a.id));
        if (a.address % BEAT) broken(where + "is not aligned to 16 bytes");
        if (a.address % PAGE + (a.length + 1) * BEAT > PAGE) broken(where + "crosses a boundary of 4 KiB");
    }

    void sample();
    void drive() {
        *pins.arready = s.arready, *pins.awready = s.awready, *pins.wready = s.wready;
        *pins.rvalid = s.rvalid, *pins.rlast = s.rlast, *pins.rresp = s.rresp, *pins.rid = 0;
        *pins.bvalid = s.bvalid, *pins.bresp = s.bresp, *pins.bid = 0;
        std::memcpy(pins.rdata, s.rdata, BEAT);
    }
    void read_beat();
    void write_beat(const Data& beat);
};

Port ports[PORTS];

void no_write_in_flight(Port& port, const Address& a, bool others_only) {
    const uint64_t first = a.address, end = first + (a.length + 1) * BEAT;
    for (Port& other : ports) {
        if (others_only && &other == &port) continue;
        for (Queue* queue : {&other.s.writes, &other.s.answers})
            for (uint64_t i = 0; i < queue->count; ++i)
                if (queue->at(i).address < end && queue->at(i).end() > first)
                    port.broken(format("%s burst at 0x%08x overlaps a write that has no answer yet: a race",
                                       others_only ? "AW" : "AR", a.address));
    }
}

void no_read_in_flight(Port& port, uint64_t address) {
    for (Port& other : ports)
        for (uint64_t i = 0; i < other.s.reads.count; ++i) {
            Burst& read = other.s.reads.at(i);
            if (address >= read.address + read.done * BEAT && address < read.end())
                port.broken(format("writes 0x%08" PRIx64 " while a read of it has not come back: a race", address));
        }
}

void Port::read_beat() {
    Burst& read = s.reads.front();
    const uint64_t address = read.address + read.done * BEAT;
    s.rresp = memory.response(false, address);
    if (s.rresp == OKAY)
        std::memcpy(s.rdata, memory.bytes + address, BEAT);
    else
        std::fill(s.rdata, s.rdata + 4, 0xdeadbeefu);
    if (s.rresp) ++s.refused;
    s.rvalid = 1;
    s.rlast = ++read.done == read.beats;
    if (s.rlast) s.reads.pop();
}

void Port::write_beat(const Data& beat) {
    Burst& write = s.writes.front();
    const uint64_t address = write.address + write.done * BEAT;
    const bool last = ++write.done == write.beats;
    if (static_cast<bool>(beat.last) != last)
        broken(format("WLAST is %u in beat %u of %u of the burst at 0x%08" PRIx64, beat.last, write.done, write.beats,
                      write.address));
    if (settings.hazards) no_read_in_flight(*this, address);
    const uint8_t response = memory.response(true, address);
    write.response = std::max(write.response, response);
    if (response) ++s.refused;
    if (response == OKAY) {
        if (beat.strobes == 0xffff)
            std::memcpy(memory.bytes + address, beat.words, BEAT);
        else
            for (unsigned i = 0; i < BEAT; ++i)
                if (beat.strobes >> i & 1)
                    memory.bytes[address + i] = static_cast<uint8_t>(beat.words[i / 4] >> (i % 4 * 8));
    }
    ++s.write_beats;
    if (last) {
        write.due = due();
        s.answers.push(write);
        s.writes.pop();
    }
}

void Port::sample() {
    if (*pins.arvalid) {
        const Address a{*pins.araddr, *pins.arid, *pins.arlen, *pins.arsize, *pins.arburst};
        if (s.ar_held && a != s.ar) broken("an AR changed while it waited for ready");
        if (s.arready) {
            check("AR", a);
            if (settings.hazards) no_write_in_flight(*this, a, false);
            s.reads.push(Burst{a.address, due(), a.length + 1u, 0, OKAY});
            ++s.reads_made;
        }
        s.ar = a, s.ar_held = !s.arready;
    } else if (s.ar_held) {
        broken("ARVALID fell before ready");
    }
    if (*pins.awvalid) {
        const Address a{*pins.awaddr, *pins.awid, *pins.awlen, *pins.awsize, *pins.awburst};
        if (s.aw_held && a != s.aw) broken("an AW changed while it waited for ready");
        if (s.awready) {
            check("AW", a);
            if (settings.hazards && PORTS > 1) no_write_in_flight(*this, a, true);
            s.writes.push(Burst{a.address, 0, a.length + 1u, 0, OKAY});
            ++s.writes_made;
        }
        s.aw = a, s.aw_held = !s.awready;
    } else if (s.aw_held) {
        broken("AWVALID fell before ready");
    }
    if (*pins.wvalid) {
        Data d;
        std::memcpy(d.words, pins.wdata, BEAT);
        d.strobes = *pins.wstrb, d.last = *pins.wlast;
        if (s.w_held && (std::memcmp(d.words, s.w.words, BEAT) || d.strobes != s.w.strobes || d.last != s.w.last))
            broken("a W changed while it waited for ready");
        if (s.wready) {
            write_beat(d);
            s.granted = 0;
        }
        s.w = d, s.w_held = !s.wready;
    } else if (s.w_held) {
        broken("WVALID fell before ready");
    }
    if (s.rvalid && *pins.rready) s.rvalid = 0, ++s.read_beats;
    if (s.bvalid && *pins.bready) s.bvalid = 0;

    // the next cycle's pins; one random number serves all decisions
    const uint64_t dice = s.random.next();
    const auto flows = [dice](unsigned shift, uint32_t stall) { return (dice >> shift & 0xff) >= stall; };
    const bool read = !s.rvalid && s.reads.count && s.reads.front().due <= now + 1;
    const bool write = !s.granted && s.writes.count;
    s.busy += read || write;
    if ((read || write) && (dice & 0xffff) < settings.duty) {
        const bool take_read = read && (!write || !s.last_read);
        s.last_read = take_read;
        if (!take_read)
            s.granted = 1;
        else if (flows(16, settings.r))
            read_beat();
    }
    s.wready = s.granted && flows(24, settings.w);
    if (!s.bvalid && s.answers.count && s.answers.front().due <= now + 1 && flows(32, settings.b)) {
        s.bvalid = 1, s.bresp = s.answers.front().response;
        s.answers.pop();
    }
    s.arready = s.reads.count < settings.outstanding && flows(40, settings.ar);
    s.awready = s.writes.count + s.answers.count < settings.outstanding && flows(48, settings.aw);
}

// ------------------------------------------------------------------ files

struct File {
    std::FILE* file;
    File(const std::string& name, const char* mode) : file(std::fopen(name.c_str(), mode)) {
        if (!file) fail(name + ": " + std::strerror(errno));
    }
    ~File() {
        if (file) std::fclose(file);
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
};

std::vector<uint8_t> contents(const std::string& name) {
    File in(name, "rb");
    std::fseek(in.file, 0, SEEK_END);
    std::vector<uint8_t> bytes(static_cast<size_t>(std::max(0L, std::ftell(in.file))));
    std::rewind(in.file);
    if (std::fread(bytes.data(), 1, bytes.size(), in.file) != bytes.size()) fail(name + ": cannot be read");
    return bytes;
}

void load(uint64_t address, const std::string& name) {
    const std::vector<uint8_t> bytes = contents(name);
    if (address > memory.size || bytes.size() > memory.size - address)
        fail(format("load: %zu bytes at 0x%" PRIx64 " do not fit a memory of %" PRIu64, bytes.size(), address,
                    memory.size));
    std::copy(bytes.begin(), bytes.end(), memory.bytes + address);
}

void dump(uint64_t address, uint64_t bytes, const std::string& name) {
    if (address > memory.size || bytes > memory.size - address)
        fail(format("dump: %" PRIu64 " bytes at 0x%" PRIx64 " leave a memory of %" PRIu64, bytes, address,
                    memory.size));
    File out(name, "wb");
    const bool good = std::fwrite(memory.bytes + address, 1, bytes, out.file) == bytes;
    std::FILE* file = out.file;
    out.file = nullptr;
    if (std::fclose(file) || !good) fail(name + ": cannot be written");
}

}  // namespace

#endif
