// A slice with its memory, as accel/sim/rtl/harness.cpp has a Verilated core, but for data, which
// nothing here depends on unless the slice has kept it.
//
// "core.h" is the slice, "ports.h" says what the core reports, and how wide its port of memory is.

#include <memory>

#include "core.h"
#include "ports.h"

namespace {

constexpr unsigned BUS = LOCKSTEP_BUS_BYTES, WORDS = 9 * BUS / 64 + 2;

template <typename F> uint64_t shown(F get) {
    uint64_t word[WORDS];
    get(word);
    return word[0];
}

}  // namespace

#define SHOWN(bench, port) shown([&](uint64_t *word) { (bench).core->get_##port(word); })
#include "run.h"
#include "watch.h"

namespace {

#define SET(port, value) \
    do { uint64_t word = value; core->set_##port(&word); } while (0)
#define GET(port) SHOWN(*this, port)

uint64_t bits(const uint64_t *words, unsigned low, unsigned count) {
    uint64_t value = words[low / 64] >> low % 64;
    if (low % 64 + count > 64) value |= words[low / 64 + 1] << 64 - low % 64;
    return count == 64 ? value : value & (uint64_t(1) << count) - 1;
}

class Bench {
public:
    Core *const core;

    // `watch`: what records a timeline, or null.
    Bench(Core *core, const lockstep::RunConfig *config, uint8_t *memory, lockstep::Watch *watch)
        : core(core), dram_(memory, config->memory_bytes, config->dram), watch_(watch) {
        SET(base_program, config->base[0]);
        SET(base_weights, config->base[1]);
        SET(base_activations, config->base[2]);
        SET(base_io, config->base[3]);
        SET(count, config->count);
    }

    void follow(uint64_t now) {
        SET(start, now == 0);
        core->early();
        offer_ = dram_.offer(now, GET(mem__wdata__valid));
        SET(mem__request__ready, offer_.request_ready);
        SET(mem__wdata__ready, offer_.wdata_ready);
        SET(mem__rdata__valid, offer_.read_valid);
        if (offer_.read_valid) {
            uint64_t payload[WORDS] = {};
            if (offer_.read_data) std::memcpy(payload, offer_.read_data, BUS);
            payload[BUS / 8] |= uint64_t(offer_.read_error) << 8 * (BUS % 8);
            core->set_mem__rdata__payload(payload);
        }
        SET(mem__ack__valid, offer_.ack_valid);
        SET(mem__ack__payload, offer_.ack_error);
        core->late();
    }

    unsigned transfer(uint64_t now) {
        uint8_t data[BUS] = {};
        lockstep::DramTaken taken = {};
        if (GET(mem__request__valid) && offer_.request_ready)
            lockstep::add_request(taken, GET(mem__request__payload));
        taken.wdata = GET(mem__wdata__valid) && offer_.wdata_ready;
        if (taken.wdata) {
            taken.data = data;
#if LOCKSTEP_VALUES
            uint64_t payload[WORDS];
            core->get_mem__wdata__payload(payload);
            std::memcpy(data, payload, BUS);
            for (unsigned i = 0; i < BUS; i += 64)
                taken.mask[i / 64] = bits(payload, 8 * BUS + i, std::min(BUS, 64u));
#endif
        }
        taken.read = offer_.read_valid && GET(mem__rdata__ready);
        dram_.edge(now, taken);
        if (watch_) look(now);
        return taken.request + taken.wdata + taken.read;
    }

    uint64_t counter(unsigned number) {
        SET(counter, number);
        core->cold();
        return GET(counter_value);
    }

    void started(uint64_t index) { if (watch_) watch_->started(index); }
    void retired(uint64_t index) { if (watch_) watch_->retired(index); }
    void step() { core->commit(); }
    void end() { core->cold(); }
    bool violated() const { return dram_.violated(); }

private:
    void look(uint64_t now) {
        unsigned number = 0;
#define LOOK(unit) watch_->look(now, number++, GET(unit##_activity), GET(unit##_watched));
        LOCKSTEP_EXECUTION_UNITS(LOOK)
    }

    lockstep::Dram dram_;
    lockstep::DramOffer offer_ = {};
    lockstep::Watch *watch_;
};

}  // namespace

extern "C" {

extern const uint8_t slice_has_values = LOCKSTEP_VALUES;

// `units`: that of each instruction, where a timeline is wanted, which is what is returned until
// slice_free; else null.
lockstep::Watch *slice_run(const lockstep::RunConfig *config, uint8_t *memory, int64_t *start,
                           int64_t *retire, const uint8_t *units, lockstep::RunResult *result) {
    auto core = std::make_unique<Core>();
    auto watch = units ? std::make_unique<lockstep::Watch>(units, config->count, config->max_cycles)
                       : nullptr;
    Bench bench(core.get(), config, memory, watch.get());
    lockstep::run(bench, *config, start, retire, result);
    if (watch) watch->finish(result->cycles);
    return watch.release();
}

const int64_t *slice_rows(const lockstep::Watch *watch, uint32_t unit, uint64_t *count) {
    *count = watch->rows(unit).size() / 3;
    return watch->rows(unit).data();
}

void slice_free(lockstep::Watch *watch) { delete watch; }

}  // extern "C"
