// Simulation of whole jobs on an emitted core: the lines of sim/compiled/session.py on standard input are carried out on
// the system of harness.h; each line "report" prints what came since the last, a line of JSON. An error is reported, too,
// and ends the program. sim/compiled/build.py compiles it with Verilator's model of the core.

// the generated model is compiled at -O1, see build.py
#pragma GCC optimize("O3")

#include "harness.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace {

// ------------------------------------------------------------------ the commands

void Harness::set(const std::string& name, double value) {
    const std::map<std::string, uint64_t*> numbers{{"latency", &settings.latency},
                                                   {"jitter", &settings.jitter},
                                                   {"freeze_cycles", &settings.freeze_cycles},
                                                   {"outstanding", &settings.outstanding}};
    const std::map<std::string, uint32_t*> shares{{"stall_ar", &settings.ar}, {"stall_aw", &settings.aw},
                                                  {"stall_w", &settings.w},   {"stall_r", &settings.r},
                                                  {"stall_b", &settings.b},   {"stall_control", &settings.control}};
    const std::map<std::string, bool*> switches{
        {"hazards", &settings.hazards},
        {"greedy", &settings.greedy},
        {"late_answers", &settings.late_answers},
        {"probe", &settings.probe},
        {"noise", &settings.noise}};
    if (name == "duty")
        settings.duty = static_cast<uint32_t>(value * 65536 + 0.5);
    else if (name == "freeze")
        settings.freeze = static_cast<uint32_t>(value * 65536 + 0.5);
    else if (name == "mutant")
#ifdef MUTANTS
        top->mutant = static_cast<uint32_t>(value);
#else
        fail("there are no faults in this core");
#endif
    else if (name == "aw_order")
        settings.aw_order = static_cast<unsigned>(value);
    else if (switches.count(name))
        *switches.at(name) = value != 0;
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

// words of a line; the last word may be a file name, which extends to the end of the line
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
        const unsigned response = write(offset, value, static_cast<unsigned>(words.number()));
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
    } else if (name == "region") {
        const uint64_t address = words.number(), bytes = words.number();
        memory.regions[address] = address + bytes;
    } else if (name == "load") {
        const uint64_t address = words.number();
        load(address, words.file());
    } else if (name == "dump") {
        const uint64_t address = words.number(), bytes = words.number();
        dump(address, bytes, words.file());
    } else if (name == "shadow") {
        shadow = contents(words.file());
    } else if (name == "trace") {
        if (trace) std::fclose(trace);
        trace = std::fopen(words.file().c_str(), "wb");
        if (!trace) fail(words.file() + ": " + std::strerror(errno));
        if (shadow.empty()) fail("a trace needs a shadow: write the monitor's image to a file and name it first");
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
    } else if (name == "fault_in") {
        const std::string kind = words.word();
        const uint64_t port = words.number(), beats = words.number();
        const std::string response = words.word();
        if (port >= PORTS) fail(format("port %" PRIu64 " of %u", port, PORTS));
        ports[port].s.coming[kind == "write"] = {beats, response == "slverr" ? SLVERR : DECERR};
    } else if (name == "no_faults") {
        settings.faults.clear();
        for (Port& port : ports)
            for (auto& one : port.s.coming) one.beats = 0;
    } else if (name == "waves") {
#ifdef WAVES
        if (waves) fail("a session has one file of waves");
        waves.reset(new Waves);
        top->trace(waves.get(), 99);
        waves_from = now;
        half_period = words.number() / 2;
        waves->open(words.file().c_str());
        if (!waves->isOpen()) fail(words.file() + ": " + std::strerror(errno));
    } else if (name == "end_waves") {
        if (!waves) fail("there are no waves to end");
        show(0);
        waves->close();
#else
        fail("waves: build the simulator with waves");
#endif
    } else {
        fail("no command called " + name);
    }
}

int Harness::run() {
    std::string line, error;
    memory.make(0);
    for (unsigned number = 1; std::getline(std::cin, line); ++number) {
        if (line == "report") {
            report(error);
            if (!error.empty()) break;
            continue;
        }
        if (!error.empty()) continue;
        try {
            command(line);
        } catch (const std::exception& problem) {
            error = format("line %u, %s: ", number, line.substr(0, line.find(' ')).c_str()) + problem.what();
        }
    }
    if (trace) std::fclose(trace);
#ifdef WAVES
    if (waves) waves->close();
#endif
    top->final();
    return error.empty() ? 0 : 1;
}

void Harness::report(const std::string& problem) {
    const std::string error = problem.empty() && trace && std::fflush(trace) ? "the trace cannot be written" : problem;
    const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
    const auto accesses = [](const char* name, const std::vector<Access>& all) {
        std::printf("\"%s\": [", name);
        for (size_t i = 0; i < all.size(); ++i)
            std::printf("%s{\"offset\": %u, \"value\": %u, \"response\": %u}", i ? ", " : "", all[i].offset,
                        all[i].value, all[i].response);
        std::printf("], ");
    };
    const auto numbers = [](const char* name, const uint64_t* all, unsigned count = PORTS) {
        std::printf(", \"%s\": [", name);
        for (unsigned i = 0; i < count; ++i) std::printf("%s%" PRIu64, i ? ", " : "", all[i]);
        std::printf("]");
    };
    std::printf("{\"cycles\": %" PRIu64 ", \"simulated\": %" PRIu64 ", \"seconds\": %.6f, ", now, simulated, seconds);
    std::printf("\"batches\": %" PRIu64 ", \"updates\": %" PRIu64 ", ", batches, updates);
    accesses("reads", reads);
    accesses("refused_writes", refused);
    const auto used = std::find_if(operations.rbegin(), operations.rend(), [](uint64_t one) { return one != 0; });
    std::printf("\"operations\": [");
    for (auto one = operations.begin(); one != used.base(); ++one)
        std::printf("%s%" PRIu64, one == operations.begin() ? "" : ", ", *one);
    std::printf("], \"waits\": [");
    for (size_t i = 0; i < waits.size(); ++i) {
        std::printf("%s{\"cycles\": %" PRIu64 ", \"ended\": \"%s\"", i ? ", " : "", waits[i].cycles,
                    waits[i].ended.c_str());
        numbers("read_beats", waits[i].read_beats);
        numbers("write_beats", waits[i].write_beats);
        numbers("due", waits[i].due);
        numbers("parts", waits[i].parts, MOST_PARTS);
        std::printf("}");
    }
    std::printf("], \"ports\": [");
    for (unsigned i = 0; i < PORTS; ++i) {
        const Port::State& s = ports[i].s;
        const double beats = static_cast<double>(s.read_beats + s.write_beats);
        std::printf("%s{\"read_beats\": %" PRIu64 ", \"write_beats\": %" PRIu64 ", \"read_bursts\": %" PRIu64
                    ", \"write_bursts\": %" PRIu64 ", \"faulty_beats\": %" PRIu64 ", \"duty\": %.6f, \"use\": %.6f"
                    ", \"most_reads\": %" PRIu64 ", \"most_writes\": %" PRIu64 ", \"longest_read\": %" PRIu64
                    ", \"longest_write\": %" PRIu64 "}",
                    i ? ", " : "", s.read_beats, s.write_beats, s.reads_made, s.writes_made, s.refused,
                    s.busy ? beats / static_cast<double>(s.busy) : 0.0, now ? beats / static_cast<double>(now) : 0.0,
                    s.most[0], s.most[1], s.longest[0], s.longest[1]);
    }
    std::printf("], \"bad_responses\": [");
    for (size_t i = 0; i < bad_responses.size(); ++i) {
        const BadResponse& one = bad_responses[i];
        std::printf("%s{\"cycle\": %" PRIu64 ", \"port\": %u, \"kind\": \"%s\", \"address\": %" PRIu64
                    ", \"response\": \"%s\"}",
                    i ? ", " : "", one.cycle, one.port, one.write ? "write" : "read", one.address,
                    one.response == SLVERR ? "slverr" : "decerr");
    }
    std::string escaped;
    for (const char c : error) {
        if (c == '"' || c == '\\') escaped += '\\';
        escaped += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
    std::printf("], \"error\": %s}\n", error.empty() ? "null" : ('"' + escaped + '"').c_str());
    std::fflush(stdout);
    simulated = 0;
    begun = Clock::now();
    reads.clear(), refused.clear(), waits.clear(), bad_responses.clear();
    std::fill(operations.begin(), operations.end(), 0);
}

}  // namespace

int main(int count, char** arguments) { return Harness(count, arguments).run(); }
