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
        : core(core), channels_(lockstep::channels_of(memory, config->memory_bytes, config->dram)),
          watch_(watch) {
        SET(base_program, config->base[0]);
        SET(base_weights, config->base[1]);
        SET(base_activations, config->base[2]);
        SET(base_io, config->base[3]);
        SET(count, config->count);
    }

    void follow(uint64_t now) {
        SET(start, now == 0);
        core->early();
#define OFFER(number, port) { \
        const auto &offer = offers_[number] = channels_[number].offer(now, GET(port##__wdata__valid)); \
        SET(port##__request__ready, offer.request_ready); \
        SET(port##__wdata__ready, offer.wdata_ready); \
        SET(port##__rdata__valid, offer.read_valid); \
        if (offer.read_valid) core->set_##port##__rdata__payload(payload_of(offer).words); \
        SET(port##__ack__valid, offer.ack_valid); \
        SET(port##__ack__payload, offer.ack_error); }
        LOCKSTEP_CHANNELS(OFFER)
        core->late();
    }

    unsigned transfer(uint64_t now) {
        unsigned moved = 0;
#if LOCKSTEP_VALUES
#define WRITTEN(port) core->get_##port##__wdata__payload(payload.words)
#else
#define WRITTEN(port)
#endif
#define TRANSFER(number, port) { \
        Payload payload; \
        WRITTEN(port); \
        moved += take(now, number, GET(port##__request__valid), GET(port##__request__payload), \
                      GET(port##__wdata__valid), payload, GET(port##__rdata__ready)); }
        LOCKSTEP_CHANNELS(TRANSFER)
        if (watch_) look(now);
        return moved;
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
    bool violated() const {
        return std::any_of(channels_.begin(), channels_.end(),
                           [](const lockstep::Dram &channel) { return channel.violated(); });
    }

private:
    struct Payload {
        uint64_t words[WORDS] = {};
    };

    // A beat that is offered, with its error above it.
    static Payload payload_of(const lockstep::DramOffer &offer) {
        Payload payload;
        if (offer.read_data) std::memcpy(payload.words, offer.read_data, BUS);
        payload.words[BUS / 8] |= uint64_t(offer.read_error) << 8 * (BUS % 8);
        return payload;
    }

    // A channel sees the handshakes of its port; how many there are. Without values nothing is written.
    unsigned take(uint64_t now, unsigned channel, bool requests, uint64_t request, bool writes,
                  const Payload &written, bool reads) {
        const lockstep::DramOffer &offer = offers_[channel];
        lockstep::DramTaken taken = {};
        if (requests && offer.request_ready) lockstep::add_request(taken, request);
        taken.wdata = writes && offer.wdata_ready;
        taken.data = reinterpret_cast<const uint8_t *>(written.words);
        for (unsigned i = 0; LOCKSTEP_VALUES && i < BUS; i += 64)
            taken.mask[i / 64] = bits(written.words, 8 * BUS + i, std::min(BUS, 64u));
        taken.read = offer.read_valid && reads;
        channels_[channel].edge(now, taken);
        return taken.request + taken.wdata + taken.read;
    }

    void look(uint64_t now) {
        unsigned number = 0;
#define LOOK(unit) watch_->look(now, number++, GET(unit##_activity), GET(unit##_watched));
        LOCKSTEP_EXECUTION_UNITS(LOOK)
    }

    std::vector<lockstep::Dram> channels_;
    lockstep::DramOffer offers_[LOCKSTEP_CHANNEL_COUNT] = {};
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
