// The loop around a slice: memory, events, watchdog. As accel/sim/rtl/harness.cpp has it around the
// Verilated core, but for data, which nothing here depends on unless the slice has kept it.
//
// "core.h" is the slice, "ports.h" says what the core reports, and how wide its port of memory is.

#include <memory>

#include "dram.h"
#include "core.h"
#include "ports.h"

struct LockstepConfig {
    uint64_t memory_bytes, max_cycles, idle_cycles;
    lockstep::DramTiming dram;
    uint32_t base[4];
    uint32_t count;
};

struct LockstepResult {
    uint64_t cycles;
    uint32_t status, unit, index, protocol;
    uint64_t waiting[LOCKSTEP_UNITS];       // index + 1; 0: does not wait
    uint64_t counters[LOCKSTEP_COUNTERS];
};

namespace {

constexpr unsigned BUS = LOCKSTEP_BUS_BYTES, WORDS = 9 * BUS / 64 + 2;
constexpr uint32_t ADDR_BITS = 32, LAST_BITS = LOCKSTEP_LAST_BITS;

#define SET(port, value) \
    do { uint64_t word = value; core_->set_##port(&word); } while (0)
#define GET(port) one([&](uint64_t *word) { core_->get_##port(word); })

template <typename F> uint64_t one(F get) {
    uint64_t word[WORDS];
    get(word);
    return word[0];
}

uint64_t bits(const uint64_t *words, unsigned low, unsigned count) {
    uint64_t value = words[low / 64] >> low % 64;
    if (low % 64 + count > 64) value |= words[low / 64 + 1] << 64 - low % 64;
    return count == 64 ? value : value & (uint64_t(1) << count) - 1;
}

class Bench {
public:
    Bench(Core *core, const LockstepConfig *config, uint8_t *memory)
        : core_(core), dram_(memory, config->memory_bytes, config->dram) {
        SET(base_program, config->base[0]);
        SET(base_weights, config->base[1]);
        SET(base_activations, config->base[2]);
        SET(base_io, config->base[3]);
        SET(count, config->count);
    }

    // All ports show what they are in this cycle.
    void settle(uint64_t now) {
        SET(start, now == 0);
        core_->early();
        offer_ = dram_.offer(now, GET(mem__wdata__valid));
        SET(mem__request__ready, offer_.request_ready);
        SET(mem__wdata__ready, offer_.wdata_ready);
        SET(mem__rdata__valid, offer_.read_valid);
        if (offer_.read_valid) {
            uint64_t payload[WORDS] = {};
            if (offer_.read_data) std::memcpy(payload, offer_.read_data, BUS);
            payload[BUS / 8] |= uint64_t(offer_.read_error) << 8 * (BUS % 8);
            core_->set_mem__rdata__payload(payload);
        }
        SET(mem__ack__valid, offer_.ack_valid);
        SET(mem__ack__payload, offer_.ack_error);
        core_->late();
    }

    // The memory sees the handshakes of this cycle; how many there are.
    unsigned transfer(uint64_t now) {
        uint8_t data[BUS] = {};
        lockstep::DramTaken taken = {};
        taken.request = GET(mem__request__valid) && offer_.request_ready;
        if (taken.request) {
            uint64_t payload = GET(mem__request__payload);
            taken.addr = uint32_t(bits(&payload, 0, ADDR_BITS));
            taken.beats = uint32_t(bits(&payload, ADDR_BITS, LAST_BITS)) + 1;
            taken.write = bits(&payload, ADDR_BITS + LAST_BITS, 1);
        }
        taken.wdata = GET(mem__wdata__valid) && offer_.wdata_ready;
        if (taken.wdata) {
            taken.data = data;
#if LOCKSTEP_VALUES
            uint64_t payload[WORDS];
            core_->get_mem__wdata__payload(payload);
            std::memcpy(data, payload, BUS);
            for (unsigned i = 0; i < BUS; i += 64)
                taken.mask[i / 64] = bits(payload, 8 * BUS + i, std::min(BUS, 64u));
#endif
        }
        taken.read = offer_.read_valid && GET(mem__rdata__ready);
        dram_.edge(now, taken);
        return taken.request + taken.wdata + taken.read;
    }

    uint64_t counter(unsigned number) {
        SET(counter, number);
        core_->cold();
        return GET(counter_value);
    }

    bool violated() const { return dram_.violated(); }

private:
    Core *core_;
    lockstep::Dram dram_;
    lockstep::DramOffer offer_ = {};
};

}  // namespace

extern "C" {

extern const uint8_t slice_has_values = LOCKSTEP_VALUES;

// Run one program from reset until `done` or until a limit: then `status` is LOCKSTEP_WATCHDOG.
// `start` and `retire` have one element for each instruction, set to -1 by the caller.
void slice_run(const LockstepConfig *config, uint8_t *memory, int64_t *start, int64_t *retire,
               LockstepResult *result) {
    auto owner = std::make_unique<Core>();
    Core *core_ = owner.get();
    Bench bench(core_, config, memory);
    auto event = [&](bool happened, uint64_t index, int64_t *times, uint64_t now) {
        if (happened && index < config->count) times[index] = int64_t(now);
        return happened;
    };
    uint64_t now = 0, progress = 0, seen = 0, checked = 0;
    for (;; now++) {
        bench.settle(now);
        if (GET(done) && now) break;
#define EVENTS(unit) \
    progress += event(GET(unit##_started), GET(unit##_started_index), start, now); \
    progress += event(GET(unit##_retired), GET(unit##_retired_index), retire, now);
        LOCKSTEP_REPORTERS(EVENTS)
        progress += bench.transfer(now);
        if (now - checked >= config->idle_cycles) {
            uint64_t working = progress;
#define BUSY(number) working += bench.counter(number);
            LOCKSTEP_BUSY(BUSY)
            if (working == seen) break;
            seen = working;
            checked = now;
        }
        if (now >= config->max_cycles || bench.violated()) break;
        core_->commit();
    }

    core_->cold();
    bool done = GET(done) && now;
    result->cycles = now;
    result->status = done ? uint32_t(GET(status)) : LOCKSTEP_WATCHDOG;
    result->unit = done ? uint32_t(GET(status_unit)) : 0;
    result->index = done ? uint32_t(GET(status_index)) : 0;
    result->protocol = bench.violated();
    uint64_t *waiting = result->waiting;
#define WAITING(unit) *waiting++ = GET(unit##_waiting) ? GET(unit##_waiting_index) + 1 : 0;
    LOCKSTEP_EXECUTION_UNITS(WAITING)
    for (unsigned i = 0; i < LOCKSTEP_COUNTERS; i++) result->counters[i] = bench.counter(i);
}

}  // extern "C"
