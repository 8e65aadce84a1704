// The loop around a Verilated core: clock, memory, events, watchdog.
//
// Compiled together with the model. "ports.h" is generated from the core's signature: it maps
// the plain names of the ports to the model's members and lists reporters and units.

#include <memory>

#include "Vcore.h"
#include "dram.h"
#include "ports.h"
#include "verilated.h"
#if VM_TRACE_FST        // a model that has all signals, not the ports alone
#include "verilated_fst_c.h"
using Trace = VerilatedFstC;
void vl_finish(const char *, int, const char *) {}      // the core has no $finish
#else
#include "verilated_vcd_c.h"
using Trace = VerilatedVcdC;
#endif

struct LockstepConfig {
    uint64_t memory_bytes, max_cycles, idle_cycles;
    lockstep::DramTiming dram;
    uint32_t base[4];
    uint32_t count;
};

// A file for waveforms from the first start to the last retirement of instructions
// begin <= index < end.
struct LockstepWaves {
    const char *path;
    uint32_t begin, end;
};

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

constexpr uint32_t ADDR_BITS = 32, LAST_BITS = LOCKSTEP_LAST_BITS;

// The core with its memory, clocked together. In every cycle: settle(), transfer(), rise(); or,
// where nothing watches the clock (waveforms do) and no time is to be lost, follow(), transfer(),
// step().
class Bench {
public:
    // Resets the core, which must live longer.
    Bench(Vcore *top, const LockstepConfig *config, uint8_t *memory)
        : top_(top), dram_(memory, config->memory_bytes, config->dram) {
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
    }

    // What the memory offers reaches the core; all ports show what they are in this cycle.
    void settle(uint64_t now) {
        offer(now);
        top_->clk = 0;
        top_->eval();
    }

    // settle() by the one function that eval() has to call. The clock is low all the time.
    void follow(uint64_t now) {
#ifdef LOCKSTEP_EDGE
        offer(now);
        auto *root = top_->rootp;
        root->__VicoTriggered[0] = 1;
        Vcore___024root___eval_ico(root);
#else
        settle(now);
#endif
    }

    // A counter of this cycle, once the memory's offers have reached the core.
    uint64_t counter(unsigned number) {
        top_->PORT_counter = number;
        top_->eval();
        return top_->PORT_counter_value;
    }

    // The memory sees the handshakes of this cycle; how many there are.
    unsigned transfer(uint64_t now) {
        uint8_t data[BUS];
        lockstep::DramTaken taken = {};
        taken.request = top_->PORT_mem__request__valid && offer_.request_ready;
        if (taken.request) {
            const auto &payload = top_->PORT_mem__request__payload;
            taken.addr = uint32_t(bits(payload, 0, ADDR_BITS));
            taken.beats = uint32_t(bits(payload, ADDR_BITS, LAST_BITS)) + 1;
            taken.write = bits(payload, ADDR_BITS + LAST_BITS, 1);
        }
        taken.wdata = top_->PORT_mem__wdata__valid && offer_.wdata_ready;
        if (taken.wdata) {
            get_bytes(top_->PORT_mem__wdata__payload, data, BUS);
            taken.data = data;
            for (unsigned i = 0; i < BUS; i += 64)
                taken.mask[i / 64] = bits(top_->PORT_mem__wdata__payload, 8 * BUS + i, std::min(BUS, 64u));
        }
        taken.read = offer_.read_valid && top_->PORT_mem__rdata__ready;
        dram_.edge(now, taken);
        return taken.request + taken.wdata + taken.read;
    }

    void rise() {
        top_->clk = 1;
        top_->eval();
    }

    // rise() by the one function that eval() has to call.
    void step() {
#ifdef LOCKSTEP_EDGE
        auto *root = top_->rootp;
        root->__VnbaTriggered[0] = 1;
        Vcore___024root___eval_nba(root);
        root->__VnbaTriggered[0] = 0;
#else
        rise();
#endif
    }

    // Whether a request broke the rules of the memory port.
    bool violated() const { return dram_.violated(); }

private:
    static constexpr unsigned BUS = LOCKSTEP_BUS_BYTES;

    void offer(uint64_t now) {
        top_->PORT_start = now == 0;
        offer_ = dram_.offer(now, top_->PORT_mem__wdata__valid);
        top_->PORT_mem__request__ready = offer_.request_ready;
        top_->PORT_mem__wdata__ready = offer_.wdata_ready;
        top_->PORT_mem__rdata__valid = offer_.read_valid;
        if (offer_.read_valid)
            set_bytes(top_->PORT_mem__rdata__payload, offer_.read_data, BUS, offer_.read_error);
        top_->PORT_mem__ack__valid = offer_.ack_valid;
        top_->PORT_mem__ack__payload = offer_.ack_error;
    }

    Vcore *top_;
    lockstep::Dram dram_;
    lockstep::DramOffer offer_ = {};
};

constexpr uint64_t PERIOD = 10;     // units of time a cycle; the clock falls with a cycle, and rises
                                    // in the middle

class Waves {
public:
    Waves(Vcore *top, const LockstepWaves &wanted)
        : wanted_(wanted), left_(wanted.end - wanted.begin) {
        trace_.set_time_unit("1ns");
        trace_.set_time_resolution("1ns");
        top->trace(&trace_, 99);
    }

    void started(uint32_t index) {
        if (has(index) && !trace_.isOpen()) trace_.open(wanted_.path);
    }
    void retired(uint32_t index) { left_ -= has(index); }
    void dump(uint64_t time) {
        if (trace_.isOpen()) trace_.dump(time);
    }
    void close_after_last() {
        if (!left_) trace_.close();
    }

private:
    bool has(uint32_t index) const { return wanted_.begin <= index && index < wanted_.end; }

    const LockstepWaves wanted_;
    uint32_t left_;                 // instructions that have not retired
    Trace trace_;
};

}  // namespace

extern "C" {

#ifdef PORT_mutant
uint32_t lockstep_mutant = 0;       // which change is on, in a core that was made with several
#endif

const char *lockstep_machine_hash = LOCKSTEP_MACHINE_HASH;

struct LockstepResult {
    uint64_t cycles;
    uint32_t status, unit, index, protocol;
    uint64_t waiting[LOCKSTEP_UNITS];       // index + 1; 0: does not wait
    uint64_t counters[LOCKSTEP_COUNTERS];
};

// Run one program from reset until `done` or until a limit: then `status` is LOCKSTEP_WATCHDOG.
// `start` and `retire` have one element for each instruction, set to -1 by the caller. `wanted` may
// be null.
void lockstep_run(const LockstepConfig *config, uint8_t *memory, int64_t *start, int64_t *retire,
                  LockstepResult *result, const LockstepWaves *wanted) {
    Context context;
    context.get()->traceEverOn(wanted);
    auto core = std::make_unique<Vcore>(context.get(), "core");
    Vcore *top = core.get();
    Bench bench(top, config, memory);
    auto waves = wanted ? std::make_unique<Waves>(top, *wanted) : nullptr;
#ifdef PORT_mutant
    top->PORT_mutant = lockstep_mutant;
#endif
    auto event = [&](bool happened, uint32_t index, int64_t *times, uint64_t now) {
        if (happened && index < config->count) times[index] = int64_t(now);
        if (happened && waves) times == start ? waves->started(index) : waves->retired(index);
        return happened;
    };
    uint64_t now = 0, progress = 0, seen = 0, checked = 0;
    for (;; now++) {
        if (waves) bench.settle(now);
        else bench.follow(now);
        if (top->PORT_done && now) break;
#define EVENTS(unit) \
    progress += event(top->PORT_##unit##_started, top->PORT_##unit##_started_index, start, now); \
    progress += event(top->PORT_##unit##_retired, top->PORT_##unit##_retired_index, retire, now);
        LOCKSTEP_REPORTERS(EVENTS)
        if (waves) waves->dump(PERIOD * now);
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
        if (waves) {
            bench.rise();
            waves->dump(PERIOD * now + PERIOD / 2);
            waves->close_after_last();
        } else {
            bench.step();
        }
    }

    bool done = top->PORT_done && now;
    result->cycles = now;
    result->status = done ? uint32_t(top->PORT_status) : LOCKSTEP_WATCHDOG;
    result->unit = done ? uint32_t(top->PORT_status_unit) : 0;
    result->index = done ? uint32_t(top->PORT_status_index) : 0;
    result->protocol = bench.violated();
    uint64_t *waiting = result->waiting;
#define WAITING(unit) \
    *waiting++ = top->PORT_##unit##_waiting ? uint64_t(top->PORT_##unit##_waiting_index) + 1 : 0;
    LOCKSTEP_EXECUTION_UNITS(WAITING)
    for (unsigned i = 0; i < LOCKSTEP_COUNTERS; i++) result->counters[i] = bench.counter(i);
    top->final();
}

// A core that somebody else holds (PyVerilator), with a memory behind it, run at leave. Between
// calls all ports show what they are in cycle `now`.
struct LockstepProbe {
    LockstepProbe(Vcore *top, const LockstepConfig *config, uint8_t *memory)
        : top(top), bench(top, config, memory) {
        bench.settle(0);
    }

    Vcore *top;
    Bench bench;
    uint64_t now = 0;
    std::unique_ptr<Trace> trace;
};

LockstepProbe *lockstep_probe(Vcore *top, const LockstepConfig *config, uint8_t *memory) {
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
