// A Verilated core with its memory, clocked together, and waveforms of it.
//
// Compiled together with the model. "ports.h" is generated from the core's signature: it maps
// the plain names of the ports to the model's members and lists reporters and units.

#include <memory>

#include "Vcore.h"
#define SHOWN(bench, port) (bench).top->PORT_##port
#include "run.h"
#include "verilated.h"
#if VM_TRACE_FST        // a model that has all signals, not the ports alone
#include "verilated_fst_c.h"
using Trace = VerilatedFstC;
void vl_finish(const char *, int, const char *) {}      // the core has no $finish
#else
#include "verilated_vcd_c.h"
using Trace = VerilatedVcdC;
#endif

// A file for waveforms from the first start to the last retirement of instructions
// begin <= index < end.
struct LockstepWaves {
    const char *path;
    uint32_t begin, end;
};

#ifdef PORT_mutant
extern "C" {
uint32_t lockstep_mutant = 0;       // which change is on, in a core that was made with several
}
#endif

namespace {

// Packed vectors of any width, as Verilator stores them.
template <typename T> uint64_t bits(const T &value, unsigned low, unsigned count) {
    uint64_t mask = count == 64 ? ~uint64_t(0) : (uint64_t(1) << count) - 1;
    return uint64_t(value) >> low & mask;
}
template <std::size_t N> uint64_t bits(const VlWide<N> &value, unsigned low, unsigned count) {
    uint64_t result = 0;
    for (unsigned i = 0; i < count; i++)
        result |= uint64_t(value[(low + i) / 32] >> (low + i) % 32 & 1) << i;
    return result;
}
template <typename T> void get_bytes(const T &value, uint8_t *bytes, unsigned count) {
    for (unsigned i = 0; i < count; i++) bytes[i] = uint8_t(uint64_t(value) >> 8 * i);
}
template <std::size_t N> void get_bytes(const VlWide<N> &value, uint8_t *bytes, unsigned count) {
    for (unsigned i = 0; i < count; i++) bytes[i] = uint8_t(value[i / 4] >> 8 * (i % 4));
}
// Data of `count` bytes with one more bit above them.
template <typename T>
void set_bytes(T &value, const uint8_t *bytes, unsigned count, bool above) {
    uint64_t result = uint64_t(above) << 8 * count;
    for (unsigned i = 0; bytes && i < count; i++) result |= uint64_t(bytes[i]) << 8 * i;
    value = T(result);
}
template <std::size_t N>
void set_bytes(VlWide<N> &value, const uint8_t *bytes, unsigned count, bool above) {
    for (unsigned i = 0; i < N; i++) value[i] = 0;
    if (bytes) std::memcpy(&value[0], bytes, count);
    if (above) value[count / 4] |= 1u << 8 * (count % 4);
}

// A context of its own for each run, so that runs in several threads do not meet. Verilator keeps
// a pointer to the thread's latest context: it must not outlive that.
class Context {
public:
    ~Context() { Verilated::threadContextp(before_); }
    VerilatedContext *get() { return own_.get(); }

private:
    VerilatedContext *before_ = Verilated::threadContextp();
    std::unique_ptr<VerilatedContext> own_ = std::make_unique<VerilatedContext>();
};

// The bench of a run (run.h). Where somebody watches the clock, settle() and rise() stand for
// follow() and step().
class Bench {
public:
    Vcore *const top;

    // Resets the core, which must live longer.
    Bench(Vcore *top, const lockstep::RunConfig *config, uint8_t *memory)
        : top(top), channels_(lockstep::channels_of(memory, config->memory_bytes, config->dram)) {
        top->PORT_base_program = config->base[0];
        top->PORT_base_weights = config->base[1];
        top->PORT_base_activations = config->base[2];
        top->PORT_base_io = config->base[3];
        top->PORT_count = config->count;
        top->rst = 1;
        for (int i = 0; i < 4; i++) {
            top->clk = i & 1;
            top->eval();
        }
        top->rst = 0;
#ifdef PORT_mutant
        top->PORT_mutant = lockstep_mutant;
#endif
    }

    // What the memory offers reaches the core; all ports show what they are in this cycle.
    void settle(uint64_t now) {
        offer(now);
        top->clk = 0;
        top->eval();
    }

    // settle() by the one function that eval() has to call. The clock is low all the time.
    void follow(uint64_t now) {
#ifdef LOCKSTEP_EDGE
        offer(now);
        auto *root = top->rootp;
        root->__VicoTriggered[0] = 1;
        Vcore___024root___eval_ico(root);
#else
        settle(now);
#endif
    }

    uint64_t counter(unsigned number) {
        top->PORT_counter = number;
        top->eval();
        return top->PORT_counter_value;
    }

    unsigned transfer(uint64_t now) {
        unsigned moved = 0;
#define TRANSFER(number, port) \
        moved += take(now, number, top->PORT_##port##__request__valid, \
                      top->PORT_##port##__request__payload, top->PORT_##port##__wdata__valid, \
                      top->PORT_##port##__wdata__payload, top->PORT_##port##__rdata__ready);
        LOCKSTEP_CHANNELS(TRANSFER)
        return moved;
    }

    void rise() {
        top->clk = 1;
        top->eval();
    }

    // rise() by the one function that eval() has to call.
    void step() {
#ifdef LOCKSTEP_EDGE
        auto *root = top->rootp;
        root->__VnbaTriggered[0] = 1;
        Vcore___024root___eval_nba(root);
        root->__VnbaTriggered[0] = 0;
#else
        rise();
#endif
    }

    void started(uint64_t) {}
    void retired(uint64_t) {}
    void end() {}
    bool violated() const {
        return std::any_of(channels_.begin(), channels_.end(),
                           [](const lockstep::Dram &channel) { return channel.violated(); });
    }

private:
    static constexpr unsigned BUS = LOCKSTEP_BUS_BYTES;

    void offer(uint64_t now) {
        top->PORT_start = now == 0;
#define OFFER(number, port) { \
        const auto &offer = offers_[number] = channels_[number].offer(now, top->PORT_##port##__wdata__valid); \
        top->PORT_##port##__request__ready = offer.request_ready; \
        top->PORT_##port##__wdata__ready = offer.wdata_ready; \
        top->PORT_##port##__rdata__valid = offer.read_valid; \
        if (offer.read_valid) \
            set_bytes(top->PORT_##port##__rdata__payload, offer.read_data, BUS, offer.read_error); \
        top->PORT_##port##__ack__valid = offer.ack_valid; \
        top->PORT_##port##__ack__payload = offer.ack_error; }
        LOCKSTEP_CHANNELS(OFFER)
    }

    // A channel sees the handshakes of its port; how many there are.
    template <typename Data>
    unsigned take(uint64_t now, unsigned channel, bool requests, uint64_t request, bool writes,
                  const Data &written, bool reads) {
        const lockstep::DramOffer &offer = offers_[channel];
        uint8_t data[BUS];
        lockstep::DramTaken taken = {};
        if (requests && offer.request_ready) lockstep::add_request(taken, request);
        taken.wdata = writes && offer.wdata_ready;
        if (taken.wdata) {
            get_bytes(written, data, BUS);
            taken.data = data;
            for (unsigned i = 0; i < BUS; i += 64)
                taken.mask[i / 64] = bits(written, 8 * BUS + i, std::min(BUS, 64u));
        }
        taken.read = offer.read_valid && reads;
        channels_[channel].edge(now, taken);
        return taken.request + taken.wdata + taken.read;
    }

    std::vector<lockstep::Dram> channels_;
    lockstep::DramOffer offers_[LOCKSTEP_CHANNEL_COUNT] = {};
};

constexpr uint64_t PERIOD = 10;     // units of time a cycle; the clock falls with a cycle, and rises
                                    // in the middle

// The same, with waveforms of the cycles that are wanted.
class Watched : public Bench {
public:
    Watched(Vcore *top, const lockstep::RunConfig *config, uint8_t *memory,
            const LockstepWaves &wanted)
        : Bench(top, config, memory), wanted_(wanted), left_(wanted.end - wanted.begin) {
        trace_.set_time_unit("1ns");
        trace_.set_time_resolution("1ns");
        top->trace(&trace_, 99);
    }

    void follow(uint64_t now) {
        settle(now);
        time_ = PERIOD * now;
    }
    void started(uint64_t index) {
        if (has(index) && !trace_.isOpen()) trace_.open(wanted_.path);
    }
    void retired(uint64_t index) { left_ -= has(index); }
    unsigned transfer(uint64_t now) {
        dump(time_);
        return Bench::transfer(now);
    }
    void step() {
        rise();
        dump(time_ + PERIOD / 2);
        if (!left_) trace_.close();
    }

private:
    bool has(uint64_t index) const { return wanted_.begin <= index && index < wanted_.end; }
    void dump(uint64_t time) {
        if (trace_.isOpen()) trace_.dump(time);
    }

    const LockstepWaves wanted_;
    uint32_t left_;                 // instructions that have not retired
    uint64_t time_ = 0;             // when the cycle began
    Trace trace_;
};

}  // namespace

extern "C" {

const char *lockstep_machine_hash = LOCKSTEP_MACHINE_HASH;

// `wanted` may be null.
void lockstep_run(const lockstep::RunConfig *config, uint8_t *memory, int64_t *start,
                  int64_t *retire, lockstep::RunResult *result, const LockstepWaves *wanted) {
    Context context;
    context.get()->traceEverOn(wanted);
    auto core = std::make_unique<Vcore>(context.get(), "core");
    if (wanted) {
        Watched bench(core.get(), config, memory, *wanted);
        lockstep::run(bench, *config, start, retire, result);
    } else {
        Bench bench(core.get(), config, memory);
        lockstep::run(bench, *config, start, retire, result);
    }
    core->final();
}

// A core that somebody else holds (PyVerilator), with a memory behind it, run at leave. Between
// calls all ports show what they are in cycle `now`.
struct LockstepProbe {
    LockstepProbe(Vcore *top, const lockstep::RunConfig *config, uint8_t *memory)
        : top(top), bench(top, config, memory) {
        bench.settle(0);
    }

    Vcore *top;
    Bench bench;
    uint64_t now = 0;
    std::unique_ptr<Trace> trace;
};

LockstepProbe *lockstep_probe(Vcore *top, const lockstep::RunConfig *config, uint8_t *memory) {
    return new LockstepProbe(top, config, memory);
}

// Up to cycle `until`, or `done`, or a request that breaks the rules; the cycle reached.
uint64_t lockstep_probe_run(LockstepProbe *probe, uint64_t until) {
    while (probe->now < until && !(probe->top->PORT_done && probe->now)) {
        probe->bench.transfer(probe->now);
        probe->bench.rise();
        if (probe->trace) probe->trace->dump(PERIOD * probe->now + PERIOD / 2);
        probe->now++;
        probe->bench.settle(probe->now);
        if (probe->trace) probe->trace->dump(PERIOD * probe->now);
        if (probe->bench.violated()) break;
    }
    return probe->now;
}

// Waveforms of the ports from now on, ten units of time a cycle; without a path, no longer.
void lockstep_probe_trace(LockstepProbe *probe, const char *path) {
    if (probe->trace) probe->trace->close();
    probe->trace.reset();
    if (!path) return;
    probe->trace = std::make_unique<Trace>();
    probe->top->trace(probe->trace.get(), 99);
    probe->trace->open(path);
    probe->trace->dump(PERIOD * probe->now);
}

bool lockstep_probe_violated(const LockstepProbe *probe) { return probe->bench.violated(); }

void lockstep_probe_free(LockstepProbe *probe) {
    lockstep_probe_trace(probe, nullptr);
    delete probe;
}

}  // extern "C"
