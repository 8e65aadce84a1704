// Time of a program: the core's units, queues, tokens, banks and memory port, cycle for cycle.
//
// accel/sim/timed/cycle.py says what this is for, gives it the machine's parameters and compiles it. It
// mirrors accel/hw part by part; "register" and "combinational" are meant as there. No value is
// computed: how long instructions take does not depend on them.

#include <memory>

#include "cycle_board.h"
#include "cycle_compute.h"
#include "cycle_weights.h"
#include "cycle_dma.h"
#include "cycle_fetch.h"
#include "cycle_memory.h"

using namespace lockstep;

extern "C" {

struct CycleConfig {
    const Parameters *parameters;
    const Opcode *opcodes;          // 256
    const uint8_t *words;           // with seven bytes behind the last
    uint64_t memory_bytes, max_cycles;
    DramTiming dram;
    uint32_t base[4];
    uint32_t count, timeline;
};

struct CycleResult {
    uint64_t cycles;
    uint32_t status, unit, index;
    uint64_t waiting[UNITS];        // index + 1; 0: does not wait
    uint64_t activity[UNITS][activity::count];
    uint64_t bytes[3];              // of fetch, load, store
    uint64_t rows[UNITS];           // of the timeline
};

}  // extern "C"

namespace {

std::vector<Instruction> decoded(const CycleConfig &config) {
    Decoder decoder(*config.parameters, config.opcodes, config.base);
    std::vector<Instruction> program(config.count);
    for (uint32_t k = 0; k < config.count; k++)
        program[k] = decoder.decode(config.words + uint64_t(k) * word::BYTES);
    return program;
}

// The core: its parts in the order in which they are evaluated; control (accel/hw/core/control.py).
class Core {
public:
    Core(const CycleConfig &config, int64_t *start, int64_t *retire, int64_t *accesses)
        : config_(config), program_(decoded(config)),
          board_(*config.parameters, program_, config.timeline, start, retire, accesses,
                 config.max_cycles),
          gemm_(board_), floats_(board_, gemm_pace(board_.p)), weights_(board_),
          load_(board_), store_(board_), fetch_(board_, config.base[0]),
          memory_(board_, {board_, fetch_, load_, store_, config.base[2]},
                  channels_of(nullptr, config.memory_bytes, config.dram, accesses + access::rows,
                              access::count)) {
        place(unit::load, load_.front.queue, load_.front.seen);
        place(unit::store, store_.front.queue, store_.front.seen);
        for (unsigned k = 0; k < COMPUTING; k++) {
            issues_[k] = unit::computing[k] == unit::gemm ? &gemm_issue_ : &add_vector(unit::computing[k]);
            place(unit::computing[k], issues_[k]->queue, issues_[k]->seen);
        }
    }

    void run(CycleResult &result) {
        board_.wake_all();
        while (!done_ && board_.now < config_.max_cycles) {
            uint64_t next = board_.upcoming();
            if (stuck_ || ending_at_ != NEVER) next = std::min(next, next_end());
            if (next == NEVER) break;       // it waits for what does not come
            board_.advance(std::min(next, config_.max_cycles));
            cycle();
        }
        finish(result);
    }

    const std::vector<int64_t> &rows(unsigned unit) const { return board_.activities[unit].rows; }

private:
    void cycle() {
        if (board_.is_due(MEMORY)) memory_.step();
        for (unsigned k = 0; k < COMPUTING; k++)
            if (board_.is_due(unit::computing[k])) compute(k);
        if (board_.is_due(unit::load)) {
            load_.step();
            stream();
        }
        if (board_.is_due(unit::store)) store_.step();
        if (board_.is_due(unit::fetch)) fetch_.step(queues_, quiet_);
        if (fetch_.finishing()) look_around();
        control();
        board_.commit_tokens();
    }

    void place(unsigned unit, Commands &queue, const Seen &seen) {
        queues_[unit] = &queue;
        seen_[unit] = &seen;
    }

    Issue &add_vector(unsigned unit) {
        vectors_[unit] = std::make_unique<Paced>(board_, vector_pace(board_.p, unit));
        return vectors_[unit]->issue;
    }

    void compute(unsigned k) {
        if (vectors_[unit::computing[k]]) vectors_[unit::computing[k]]->step(held(k));
        else if (board_.p.weight_cycles) weights_.step(held(k));
        else if (board_.p.gemm_hazard) floats_.step(held(k));
        else gemm_.step(held(k));
    }

    // The banks that a unit cannot have: others hold them, or ask for them and come later in the
    // list of units, so that they were here before it.
    uint32_t held(unsigned k) const {
        uint32_t banks = 0;
        for (unsigned other = 0; other < k; other++)
            banks |= issues_[other]->use.hold | issues_[other]->use.request;
        for (unsigned other = k + 1; other < COMPUTING; other++) banks |= issues_[other]->hold();
        return banks;
    }

    // Beats that load takes one by one are passed over.
    void stream() {
        uint32_t cycles = load_.streaming();
        if (cycles) cycles = std::min(cycles, memory_.streaming());
        if (!cycles) return;
        load_.stream(cycles);
        memory_.stream(cycles);
    }

    // When a run may end that is about to.
    uint64_t next_end() const {
        if (board_.halt) return board_.now + 1;
        uint64_t next = stuck_ ? stuck_since_ + timing::patience_cycles - 1 + timing::seen_cycles : NEVER;
        return std::min(next, ending_at_);
    }

    // FINISH waits until all is quiet.
    void look_around() {
        bool quiet = true;
        for (unsigned unit = 0; unit < UNITS; unit++)
            quiet &= seen_[unit]->idle && !queues_[unit]->level(board_.now);
        if (quiet != quiet_) board_.wake_next(unit::fetch);
        quiet_ = quiet;
    }

    void control() {
        uint64_t now = board_.now;
        if (memory_.works() && ending_at_ == NEVER && !fetch_.retires) {
            settled_since_ = NEVER;
            stuck_ = false;
            return;                     // nothing ends
        }
        if (ending_at_ == NEVER && fetch_.retires) ending_at_ = now + timing::status_cycles - 1;
        bool settled = !memory_.open(), stuck = fetch_.blocked;
        for (unsigned unit = 0; settled && unit < UNITS; unit++) {
            settled = seen_[unit]->idle || seen_[unit]->blocked;
            stuck &= seen_[unit]->blocked || !queues_[unit]->level(now);
        }
        stuck &= settled;
        if (!settled) settled_since_ = NEVER;
        else if (settled_since_ == NEVER) settled_since_ = now;
        if (board_.halt) {
            bool counts = now >= ended_at_ + 1 + timing::settling_cycles;
            done_ = counts && settled_since_ != NEVER && settled_since_ + timing::seen_cycles <= now;
            return;
        }
        if (!stuck || !stuck_) stuck_since_ = now;
        stuck_ = stuck;
        bool deadlock = stuck && now - stuck_since_ == timing::patience_cycles - 1 + timing::seen_cycles;
        if (now == ending_at_) end({true, status::done, unit::fetch, fetch_.index()});
        else if (deadlock) end(blame());
    }

    // The waiting instruction that comes first in the stream, and its unit.
    Error blame() {
        Error first = {true, status::deadlock, unit::fetch, fetch_.index()};
        bool found = false;
        for (unsigned unit = 0; unit < UNITS; unit++) {
            if (!seen_[unit]->blocked) continue;
            waiting_ |= 1u << unit;
            uint32_t index = seen_[unit]->blocked_index;
            if (!found || index < first.index) first = {true, status::deadlock, unit, index};
            found = true;
        }
        return first;
    }

    // An error goes before how it ended.
    void end(const Error &how) {
        how_ = board_.error.there ? board_.error : how;
        ended_at_ = ending_at_ = board_.now;
        stuck_ = false;
        board_.halt = true;
        board_.wake_all();
    }

    void finish(CycleResult &result) {
        memory_.follow(board_.now + 1);
        bool done = done_ && board_.now + timing::over_cycles <= config_.max_cycles;
        result.cycles = done ? board_.now + timing::over_cycles : config_.max_cycles;
        result.status = done ? how_.status : status::watchdog;
        result.unit = done ? how_.unit : 0;
        result.index = done ? how_.index : 0;
        for (unsigned unit = 0; unit < UNITS; unit++) {
            account(unit, result.cycles);
            Activity &activity = board_.activities[unit];
            std::copy(activity.cycles, activity.cycles + activity::count, result.activity[unit]);
            result.rows[unit] = activity.rows.size() / 3;
            bool waits = waiting_ >> unit & 1;
            result.waiting[unit] = waits ? uint64_t(seen_[unit]->blocked_index) + 1 : 0;
        }
        for (unsigned client = 0; client < 3; client++)
            result.bytes[client] = memory_.beats(client) << board_.p.bus_bits;
    }

    // Counters show a cycle some cycles later. From when they are cleared, in the cycle before a
    // run is on, they show the cycles before it, and the run's last ones, as `command`.
    void account(unsigned unit, uint64_t cycles) {
        Activity &own = board_.activities[unit];
        uint64_t begin = timing::begin_cycles, late = timing::counter_cycles - 1;
        if (cycles <= begin + late) {
            own.cycles[activity::command] = cycles < begin ? 0 : begin + late;
            return;
        }
        if (own.what != activity::command) {
            board_.close(own, cycles - late);
            own.what = activity::command;
            own.index = -1;
            own.since = cycles - late;
        }
        board_.close(own, cycles);
    }

    const CycleConfig config_;
    std::vector<Instruction> program_;
    Board board_;
    std::unique_ptr<Paced> vectors_[UNITS];     // by unit
    Gemm gemm_;
    Paced floats_;                  // in place of `gemm_` where it accumulates floats
    Stationary weights_;            // in place of it where weights stay
    Issue &gemm_issue_ = board_.p.weight_cycles ? weights_.issue
                         : board_.p.gemm_hazard ? floats_.issue : gemm_.issue;
    Load load_;
    Store store_;
    Fetch fetch_;
    Memory memory_;
    Issue *issues_[COMPUTING];                  // in the order of `unit::computing`
    Commands *queues_[UNITS];
    const Seen *seen_[UNITS];
    Error how_ = {};
    uint64_t ending_at_ = NEVER;    // when the run is going to end, as FINISH has retired
    uint64_t ended_at_ = NEVER, stuck_since_ = 0, settled_since_ = NEVER;
    uint32_t waiting_ = 0;          // mask of units, after a deadlock
    bool stuck_ = false, quiet_ = false, done_ = false;
};

}  // namespace

extern "C" {

// Run one program. `start` and `retire` have one element for each instruction, set to -1 by the
// caller, `accesses` a row of zeros. The result keeps the rows of the timeline until cycle_free.
void *cycle_run(const CycleConfig *config, int64_t *start, int64_t *retire, int64_t *accesses,
                CycleResult *result) {
    auto core = std::make_unique<Core>(*config, start, retire, accesses);
    core->run(*result);
    for (uint32_t k = 0; k < config->count; k++)
        for (int64_t *time : {start + k, retire + k})
            if (*time > int64_t(result->cycles)) *time = -1;
    return core.release();
}

const int64_t *cycle_rows(const void *core, uint32_t unit) {
    return static_cast<const Core *>(core)->rows(unit).data();
}

void cycle_free(void *core) { delete static_cast<Core *>(core); }

}  // extern "C"
