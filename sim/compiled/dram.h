// Memory behind a core's AXI ports, with latency, duty, stalls and faults as set, and a check of the AXI rules that the
// core must keep. Included by harness.h.

#ifndef FABTUNE_DRAM_H
#define FABTUNE_DRAM_H

#include "verilated.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#if PORTS < 1 || PORTS > 3
#error "PORTS is 1 to 3"
#endif

namespace {

constexpr uint64_t BEAT = 16, PAGE = 4096, QUEUE = 64;
constexpr uint8_t OKAY = 0, SLVERR = 2, DECERR = 3;
// when the memory takes an address of a write: any time, once W is valid, behind the burst's last W
constexpr unsigned AW_ANY = 0, AW_WITH_W = 1, AW_BEHIND_W = 2;
constexpr unsigned CHANNELS = 5;  // AR, AW, W, R, B

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
    uint32_t freeze = 0;                                        // probability of a pause of a channel, in 1/65536
    uint64_t freeze_cycles = 1;                                 // longest pause
    bool hazards = true, greedy = false, late_answers = false, probe = false, noise = true;
    unsigned aw_order = AW_ANY;
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
    static constexpr uint64_t PIECE = 1 << 16, PIECES = 1 << 16;
    uint64_t size = 0;
    using Pieces = std::vector<std::unique_ptr<uint8_t[]>>;
    std::vector<Pieces> chunks;  // of 4 GiB; pieces and what leads to them are made when they are first touched, of zeros

    void make(uint64_t wanted) {
        size = wanted;
        chunks.resize((size + PIECE * PIECES - 1) / (PIECE * PIECES));
    }

    uint8_t* at(uint64_t address) {  // a beat is within a piece
        Pieces& pieces = chunks[address / (PIECE * PIECES)];
        if (pieces.empty()) pieces.resize(PIECES);
        auto& piece = pieces[address / PIECE % PIECES];
        if (!piece) piece.reset(new uint8_t[PIECE]());
        return piece.get() + address % PIECE;
    }

    uint8_t response(bool write, uint64_t address) const {
        uint8_t worst = address + BEAT > size || !open(address) ? DECERR : OKAY;
        for (const Fault& fault : settings.faults)
            if (fault.write == write && address < fault.end && address + BEAT > fault.first)
                worst = std::max(worst, fault.response);
        return worst;
    }

    bool open(uint64_t address) const {
        const auto after = regions.upper_bound(address);  // the first region behind it
        return regions.empty() || (after != regions.begin() && address + BEAT <= std::prev(after)->second);
    }

    std::map<uint64_t, uint64_t> regions;  // first byte and end; where there are none, all of it is open
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
    QData *awaddr, *araddr;
    SData* wstrb;
    EData *wdata, *rdata;
};

struct Address {
    uint64_t address;
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

// a bad response that the core has taken
struct BadResponse {
    uint64_t cycle, address;  // of the burst
    unsigned port;
    bool write;
    uint8_t response;
};
std::vector<BadResponse> bad_responses;
// in one run: a core that asks again and again, after every error, would fill the host's memory
constexpr size_t MOST_BAD_RESPONSES = 100000;

constexpr uint8_t NONE = 255;
uint8_t holder = NONE;  // with `greedy`: the port and half (0 reads, 1 writes) that has the memory

struct Port {
    Pins pins;
    unsigned number;

    struct State {
        Random random;
        Queue reads, writes, answers;
        // values of the pins in this cycle
        uint8_t arready, awready, wready, rvalid, rlast, rresp, bvalid, bresp;
        uint32_t rdata[4];
        uint64_t rburst, bburst;  // address of the burst to which the beat or answer belongs
        uint8_t granted;    // the duty allows a write beat, which has not come yet
        uint8_t last_read;  // the last beat was a read: a write goes first next time
        // transfers that the core offered and the memory did not take: they must be unchanged in the next cycle
        uint8_t ar_held, aw_held, w_held;
        Address ar, aw;
        Data w;
        // with AW_BEHIND_W: the burst on AW is written already; all of it, and its answer waits for AW
        uint8_t announced, written;
        Burst behind;
        uint64_t pause[CHANNELS];
        struct {
            uint64_t beats;  // the fault comes with so many beats, 0: none
            uint8_t response;
        } coming[2];  // of reads and writes
        Random noise;  // what the pins show while they are not valid
        uint64_t read_beats, write_beats, reads_made, writes_made, busy, refused;
        // bursts in flight at most, and beats of the longest: of reads and writes
        uint64_t most[2], longest[2];
    } s;

    void start(uint64_t seed) {
        s = State{};
        s.random.state = seed * 0x9e3779b97f4a7c15u + number;
        s.random.next();
        s.noise.state = s.random.state + 1;
    }

    void reset() {  // counters and the random sequence continue
        s.reads.count = s.writes.count = s.answers.count = 0;
        s.arready = s.awready = s.wready = s.rvalid = s.bvalid = s.granted = 0;
        s.ar_held = s.aw_held = s.w_held = s.announced = s.written = 0;
        holder = NONE;
        drive();
    }

    [[noreturn]] void broken(const std::string& what) {
        fail(format("m_axi_gmem%u: %s (cycle %" PRIu64 ")", number, what.c_str(), now));
    }

    void measure(unsigned half, uint64_t bursts, uint64_t beats) {
        s.most[half] = std::max(s.most[half], bursts), s.longest[half] = std::max(s.longest[half], beats);
    }

    void quiet() {
        if (*pins.arvalid || *pins.awvalid || *pins.wvalid) broken("a valid is high in reset");
    }

    // a command has ended: nothing is on offer, and every burst has its last beat or its answer
    void at_rest() {
        if (*pins.arvalid || *pins.awvalid || *pins.wvalid) broken("a valid is high behind the end of a command");
        if (s.reads.count || s.rvalid || s.writes.count || s.written || s.answers.count || s.bvalid)
            broken(format("a burst of %s is outstanding behind the end of a command",
                          s.reads.count || s.rvalid ? "reads" : "writes"));
    }

    uint64_t due() { return now + settings.latency + (settings.jitter ? s.random.next() % (settings.jitter + 1) : 0); }

    void check(const char* channel, const Address& a) {
        const auto where = format("%s burst of %u beats at 0x%08" PRIx64 " ", channel, a.length + 1, a.address);
        if (a.size != 4) broken(where + format("has size %u, not 4 (16 bytes)", a.size));
        if (a.burst != 1) broken(where + format("has type %u, not 1 (INCR)", a.burst));
        if (a.id) broken(where + format("has id %u, not 0", a.id));
        if (a.address % BEAT) broken(where + "is not aligned to 16 bytes");
        if (a.address % PAGE + (a.length + 1) * BEAT > PAGE) broken(where + "crosses a boundary of 4 KiB");
    }

    uint8_t response(bool write, uint64_t address) {
        uint8_t worst = memory.response(write, address);
        if (s.coming[write].beats && !--s.coming[write].beats) worst = std::max(worst, s.coming[write].response);
        return worst;
    }

    void sample();
    void answer();
    void note(uint64_t burst, bool write, uint8_t response);
    void hold(bool& read, bool& write, uint64_t dice);
    void drive() {
        *pins.arready = s.arready, *pins.awready = s.awready, *pins.wready = s.wready;
        *pins.rvalid = s.rvalid, *pins.bvalid = s.bvalid;
        const uint64_t any = s.noise.next(), other = s.noise.next();
        if (s.rvalid) {
            *pins.rlast = s.rlast, *pins.rresp = s.rresp, *pins.rid = 0;
            std::memcpy(pins.rdata, s.rdata, BEAT);
        } else if (settings.noise) {
            *pins.rlast = any & 1, *pins.rresp = any >> 1 & 3, *pins.rid = any >> 3 & 1;
            std::memcpy(pins.rdata, &any, BEAT / 2), std::memcpy(pins.rdata + 2, &other, BEAT / 2);
        }
        if (s.bvalid)
            *pins.bresp = s.bresp, *pins.bid = 0;
        else if (settings.noise)
            *pins.bresp = any >> 4 & 3, *pins.bid = any >> 6 & 1;
    }
    void take_address();
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
                    port.broken(format("%s burst at 0x%08" PRIx64 " overlaps a write that has no answer yet: a race",
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
    s.rresp = response(false, address);
    s.rburst = read.address;
    if (s.rresp == OKAY)
        std::memcpy(s.rdata, memory.at(address), BEAT);
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
    const uint8_t answered = response(true, address);
    write.response = std::max(write.response, answered);
    if (answered) ++s.refused;
    if (answered == OKAY) {
        if (beat.strobes == 0xffff)
            std::memcpy(memory.at(address), beat.words, BEAT);
        else
            for (unsigned i = 0; i < BEAT; ++i)
                if (beat.strobes >> i & 1)
                    memory.at(address)[i] = static_cast<uint8_t>(beat.words[i / 4] >> (i % 4 * 8));
    }
    ++s.write_beats;
    if (!last) return;
    write.due = due();
    if (settings.aw_order == AW_BEHIND_W)
        s.behind = write, s.written = 1;
    else
        s.answers.push(write);
    s.writes.pop();
}

void Port::take_address() {
    check("AW", s.aw);
    if (settings.hazards && PORTS > 1) no_write_in_flight(*this, s.aw, true);
    s.writes.push(Burst{s.aw.address, 0, s.aw.length + 1u, 0, OKAY});
    ++s.writes_made;
    measure(1, s.writes.count + s.answers.count, s.aw.length + 1u);
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
            measure(0, s.reads.count, a.length + 1u);
        }
        s.ar = a, s.ar_held = !s.arready;
    } else if (s.ar_held) {
        broken("ARVALID fell before ready");
    }
    if (*pins.awvalid) {
        const Address a{*pins.awaddr, *pins.awid, *pins.awlen, *pins.awsize, *pins.awburst};
        if (s.aw_held && a != s.aw) broken("an AW changed while it waited for ready");
        s.aw = a, s.aw_held = !s.awready;
        if (settings.aw_order != AW_BEHIND_W) {
            if (s.awready) take_address();
        } else if (s.awready) {
            s.answers.push(s.behind);
            s.announced = s.written = 0;
        } else if (!s.announced) {
            take_address();
            s.announced = 1;
        }
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
    answer();
}

void Port::note(uint64_t burst, bool write, uint8_t response) {
    if (bad_responses.size() == MOST_BAD_RESPONSES) broken(format("more than %zu bad responses", MOST_BAD_RESPONSES));
    bad_responses.push_back({now, burst, number, write, response});
}

// what the core takes in this cycle, and the pins of the next: in reset too, where answers come late
void Port::answer() {
    if (s.rvalid && *pins.rready) {
        if (s.rresp) note(s.rburst, false, s.rresp);
        s.rvalid = 0, ++s.read_beats;
    }
    if (s.bvalid && *pins.bready) {
        if (s.bresp) note(s.bburst, true, s.bresp);
        s.bvalid = 0;
    }
    // one random number serves all decisions of a run without pauses
    const uint64_t dice = s.random.next();
    bool flows[CHANNELS];
    const uint32_t stalls[CHANNELS] = {settings.ar, settings.aw, settings.w, settings.r, settings.b};
    const unsigned shifts[CHANNELS] = {40, 48, 24, 16, 32};
    for (unsigned i = 0; i < CHANNELS; ++i) {
        flows[i] = (dice >> shifts[i] & 0xff) >= stalls[i];
        if (!settings.freeze) continue;
        const uint64_t start = s.random.next();
        if (s.pause[i])
            --s.pause[i], flows[i] = false;
        else if ((start & 0xffff) < settings.freeze)
            s.pause[i] = (start >> 16) % settings.freeze_cycles + 1;
    }
    enum { AR, AW, W, R, B };
    const bool due_read = !s.rvalid && s.reads.count && s.reads.front().due <= now + 1;
    const bool due_write = !s.granted && s.writes.count;
    s.busy += due_read || due_write;
    bool read = due_read, write = due_write;
    if (settings.greedy) hold(read, write, dice >> 56);
    if ((read || write) && (dice & 0xffff) < settings.duty) {
        const bool take_read = read && (!write || !s.last_read);
        s.last_read = take_read;
        if (!take_read)
            s.granted = 1;
        else if (flows[R])
            read_beat();
    }
    s.wready = s.granted && flows[W];
    if (!s.bvalid && s.answers.count && s.answers.front().due <= now + 1 && flows[B]) {
        s.bvalid = 1, s.bresp = s.answers.front().response, s.bburst = s.answers.front().address;
        s.answers.pop();
    }
    s.arready = s.reads.count < settings.outstanding && flows[AR];
    s.awready = s.writes.count + s.answers.count < settings.outstanding && flows[AW];
    if (settings.aw_order == AW_WITH_W) s.awready &= s.w_held;
    if (settings.aw_order == AW_BEHIND_W) s.awready &= s.written;
}

// one port and half has the memory as long as it has something to move: the others starve
void Port::hold(bool& read, bool& write, uint64_t dice) {
    const uint8_t own = static_cast<uint8_t>(2 * number);
    if ((holder == own && !read) || (holder == own + 1 && !write)) holder = NONE;
    if (holder == NONE && (read || write) && dice & 1) holder = own + (write && (!read || dice & 2));
    read = read && holder == own, write = write && holder == own + 1;
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
    for (size_t done = 0; done < bytes.size();) {
        const size_t part = std::min<size_t>(bytes.size() - done, Memory::PIECE - (address + done) % Memory::PIECE);
        std::memcpy(memory.at(address + done), bytes.data() + done, part);
        done += part;
    }
}

void dump(uint64_t address, uint64_t bytes, const std::string& name) {
    if (address > memory.size || bytes > memory.size - address)
        fail(format("dump: %" PRIu64 " bytes at 0x%" PRIx64 " leave a memory of %" PRIu64, bytes, address,
                    memory.size));
    File out(name, "wb");
    bool good = true;
    for (uint64_t done = 0; good && done < bytes;) {
        const uint64_t part = std::min(bytes - done, Memory::PIECE - (address + done) % Memory::PIECE);
        good = std::fwrite(memory.at(address + done), 1, part, out.file) == part;
        done += part;
    }
    std::FILE* file = out.file;
    out.file = nullptr;
    if (std::fclose(file) || !good) fail(name + ": cannot be written");
}

}  // namespace

#endif
