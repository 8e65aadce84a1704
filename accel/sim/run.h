// A run of a program on a simulated core: its limits, what became of it, and the loop over cycles.
//
// "ports.h" (accel/sim/rtl/interface.py) lists reporters, units and counters. A harness has a bench,
// a core with its memory, and SHOWN(bench, port), what a port of its core shows. A bench has
//
//     follow(now)         what the memory offers reaches the core: ports show what they are
//     started(index), retired(index)      sees an event of this cycle
//     transfer(now)       the memory sees the handshakes of this cycle; how many there are
//     step()              the clock rises
//     counter(number)     a counter of this cycle
//     end()               the last cycle: ports of status show what they are, too
//     violated()          a request broke the rules of a memory port

#pragma once

#include "dram.h"
#include "ports.h"

namespace lockstep {

// Fields as in accel/sim/rtl/interface.py.
struct RunConfig {
    uint64_t memory_bytes, max_cycles, idle_cycles;
    DramTiming dram;
    uint32_t base[4];
    uint32_t count;
};

struct RunResult {
    uint64_t cycles;
    uint32_t status, unit, index, protocol;
    uint64_t waiting[LOCKSTEP_UNITS];       // index + 1; 0: does not wait
    uint64_t counters[LOCKSTEP_COUNTERS];
};

// Adds the payload of a request to what the memory sees of a cycle.
inline void add_request(DramTaken &taken, uint64_t payload) {
    constexpr unsigned ADDR_BITS = 32, LAST_BITS = LOCKSTEP_LAST_BITS;
    taken.request = true;
    taken.addr = uint32_t(payload);
    taken.beats = uint32_t(payload >> ADDR_BITS & (1 << LAST_BITS) - 1) + 1;
    taken.write = payload >> (ADDR_BITS + LAST_BITS) & 1;
}

// Runs one program from reset until `done` or until a limit: then `status` is LOCKSTEP_WATCHDOG.
// `start` and `retire` have one element for each instruction, set to -1 by the caller.
template <typename Bench>
void run(Bench &bench, const RunConfig &config, int64_t *start, int64_t *retire,
         RunResult *result) {
    uint64_t now = 0, progress = 0, seen = 0, checked = 0;
    auto event = [&](bool happened, uint64_t index, int64_t *times) {
        if (happened && index < config.count) times[index] = int64_t(now);
        if (happened) times == start ? bench.started(index) : bench.retired(index);
        return happened;
    };
    for (;; now++) {
        bench.follow(now);
        if (SHOWN(bench, done) && now) break;
#define EVENTS(unit) \
    progress += event(SHOWN(bench, unit##_started), SHOWN(bench, unit##_started_index), start); \
    progress += event(SHOWN(bench, unit##_retired), SHOWN(bench, unit##_retired_index), retire);
        LOCKSTEP_REPORTERS(EVENTS)
        progress += bench.transfer(now);
        if (now - checked >= config.idle_cycles) {
            uint64_t working = progress;
#define BUSY(number) working += bench.counter(number);
            LOCKSTEP_BUSY(BUSY)
            if (working == seen) break;
            seen = working;
            checked = now;
        }
        if (now >= config.max_cycles || bench.violated()) break;
        bench.step();
    }

    bench.end();
    bool done = SHOWN(bench, done) && now;
    result->cycles = now;
    result->status = done ? uint32_t(SHOWN(bench, status)) : LOCKSTEP_WATCHDOG;
    result->unit = done ? uint32_t(SHOWN(bench, status_unit)) : 0;
    result->index = done ? uint32_t(SHOWN(bench, status_index)) : 0;
    result->protocol = bench.violated();
    uint64_t *waiting = result->waiting;
#define WAITING(unit) \
    *waiting++ = SHOWN(bench, unit##_waiting) \
        ? uint64_t(SHOWN(bench, unit##_waiting_index)) + 1 : 0;
    LOCKSTEP_EXECUTION_UNITS(WAITING)
    for (unsigned i = 0; i < LOCKSTEP_COUNTERS; i++) result->counters[i] = bench.counter(i);
}

}  // namespace lockstep
