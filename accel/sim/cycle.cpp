// Time of a program: the core's units, queues, tokens, banks and memory port, cycle for cycle.
//
// accel/sim/cycle.py says what this is for, gives it the machine's parameters and compiles it. It
// mirrors accel/hw part by part; "register" and "combinational" are meant as there. No value is
// computed: how long instructions take does not depend on them.

#include <memory>

#include "cycle_board.h"
#include "cycle_compute.h"
#include "cycle_dma.h"

namespace lockstep {

// Reads the program, hands instructions on, performs FINISH; accel/hw/fetch.py.
class Fetch {
public:
    Fetch(Board &board, uint32_t base) : board_(board), base_(base) {}

    Answer answer = {};
    bool blocked = false, retires = false;

    uint32_t index() const { return index_; }
    bool finishing() const { return finishing_; }
    bool requests() const {
        return !board_.halt && requested_ != count() && ahead_ != board_.p.prefetch;
    }
    Request request() const {
        return {base_ + requested_ * word::BYTES, beats_of_word() - 1};
    }

    // `queues` in the order of units; `is_quiet`: whether they are empty and all units idle.
    template <typename Quiet> void step(Commands *const *queues, Quiet is_quiet) {
        bool there = full_ && !board_.halt, handed = false, was_finishing = finishing_;
        blocked = retires = finishing_ = false;
        if (there && bad_) {
            board_.fail(status::bus, unit::fetch, index_);
        } else if (there) {
            uint32_t unit = board_.program[index_].unit;
            if (unit == unit::fetch) {
                finish(is_quiet(), was_finishing);
            } else if (unit == NO_UNIT) {
                board_.fail(status::illegal, unit::fetch, index_);
            } else {
                handed = queues[unit]->level(board_.now) != board_.p.queue_depth;
                blocked = !handed;
                if (handed) {
                    queues[unit]->push(board_.now, index_);
                    board_.wake_next(unit);
                }
            }
        } else {
            blocked = index_ == count();
        }
        bool changed = finishing_ != was_finishing || handed || answer.granted || answer.beat;
        changed |= receive(handed);
        if (changed) {
            board_.go_on(unit::fetch);
            board_.go_on(MEMORY);
        }
    }

private:
    uint32_t count() const { return uint32_t(board_.program.size()); }
    uint32_t beats_of_word() const { return word::BYTES >> board_.p.bus_bits; }

    void finish(bool quiet, bool begun) {
        finishing_ = true;
        if (!begun) board_.started(board_.now, index_);
        blocked = !quiet;
        if (!quiet) return;
        retires = board_.no_tokens();
        if (retires) board_.retired(board_.now, index_);
        else board_.fail(status::tokens_left, unit::fetch, index_);
    }

    // Beats into the word at hand. Whether one moved.
    bool receive(bool handed) {
        bool moved = !buffer_.empty() && (!full_ || handed);
        bool last = moved && beat_ == beats_of_word() - 1;
        if (handed) {
            index_++;
            full_ = false;
        }
        if (moved) {
            bad_ |= buffer_.front();
            buffer_.pop();
            full_ = last;
            beat_ = last ? 0 : beat_ + 1;
        }
        if (answer.beat) buffer_.push(answer.beat_error);
        requested_ += answer.granted;
        ahead_ += answer.granted;
        ahead_ -= last;
        answer = {};
        return moved;
    }

    Board &board_;
    const uint32_t base_;
    uint32_t requested_ = 0, ahead_ = 0;    // words; of these, not yet whole
    Fifo<uint8_t> buffer_;                     // beats: is it an error
    uint32_t beat_ = 0, index_ = 0;
    bool full_ = false, bad_ = false, finishing_ = false;
};

// The arbiter and the memory behind it; accel/hw/arbiter.py.
class Port {
public:
    Port(Board &board, uint64_t memory_bytes, const DramTiming &timing)
        : board_(board), dram_(nullptr, memory_bytes, timing) {}

    // Bursts that are under way at the begin of this cycle.
    uint32_t open() const { return open_seen_; }
    // Moved before a cycle, of fetch, load and store.
    uint64_t beats_before(unsigned client, uint64_t cycle) const {
        return beats_[client] - (latest_[client] == cycle);
    }

    void step(Fetch &fetch, Load &load, Store &store) {
        uint64_t now = board_.now;
        open_seen_ = open_;
        bool data = store.has_beat() && due_;
        DramOffer offer = dram_.offer(now, data);
        DramTaken taken = {};
        bool changed = read(offer, taken, fetch, load);
        if (offer.ack_valid) {
            store.answer.ack = changed = true;
            store.answer.ack_error = offer.ack_error;
            board_.wake_now(unit::store);
            open_--;
        }
        taken.request = request_there_ && offer.request_ready;
        taken.addr = request_.addr;
        taken.beats = request_.last + 1;
        taken.write = write_;
        taken.wdata = data && offer.wdata_ready;
        if (taken.wdata) {
            store.answer.spent = true;
            board_.wake_now(unit::store);
            moved(2);
            due_--;
        }
        if (taken.request && write_) due_ += taken.beats;
        bool free = (!request_there_ || offer.request_ready) && open_seen_ != board_.p.bursts;
        if (offer.request_ready) request_there_ = false;
        bool granted = free && grant(fetch, load, store);
        dram_.edge(now, taken);
        changed |= taken.request || taken.wdata || granted;
        if (changed) board_.go_on(MEMORY);
        board_.set_timer(MEMORY, changed ? NEVER : dram_.next_offer(now));
    }

    // ---- cycles in which a beat goes to load, and nothing else happens --------------------------

    // Whether there can be such: nobody asks for anything that could be granted.
    bool streams(const Fetch &fetch, const Load &load, const Store &store) {
        asked_ = fetch.requests() || load.requests() || store.requests();
        bool full = open_ == board_.p.bursts;
        return !request_there_ && (!asked_ || full) && !(store.has_beat() && due_);
    }
    // How many, after this cycle, at most; who asks is granted a burst when one ends.
    uint32_t streaming() const {
        bool to_load = !owners_.empty() && owners_.front().load;
        uint32_t beats = to_load ? dram_.steady_reads(board_.now + 1) : 0;
        return beats && asked_ && beats == owners_.front().beats ? beats - 1 : beats;
    }
    void stream(uint32_t count) {
        dram_.take_reads(board_.now + 1, count);
        beats_[1] += count;
        if (owners_.front().beats -= count) return;
        owners_.pop();
        open_--;
    }

private:
    struct Owner {
        bool load;
        uint32_t beats;         // that are left
    };

    void moved(unsigned client) {
        beats_[client]++;
        latest_[client] = board_.now;
    }

    // A beat for the owner of the oldest burst.
    bool read(const DramOffer &offer, DramTaken &taken, Fetch &fetch, Load &load) {
        if (!offer.read_valid) return false;
        Owner &owner = owners_.front();
        taken.read = !owner.load || load.takes_beat();
        if (!taken.read) return false;
        Answer &answer = owner.load ? load.answer : fetch.answer;
        answer.beat = true;
        answer.beat_error = offer.read_error;
        board_.wake_now(owner.load ? unit::load : unit::fetch);
        moved(owner.load ? 1 : 0);
        if (!--owner.beats) {
            owners_.pop();
            open_--;
        }
        return true;
    }

    // The request of the first client that has one.
    bool grant(Fetch &fetch, Load &load, Store &store) {
        if (fetch.requests()) return enter(fetch, unit::fetch, false);
        if (store.requests()) return enter(store, unit::store, true);
        if (load.requests()) return enter(load, unit::load, false);
        return false;
    }

    template <typename Client> bool enter(Client &client, unsigned unit, bool write) {
        request_ = client.request();
        request_there_ = true;
        write_ = write;
        if (!write) owners_.push({unit == unit::load, request_.last + 1});
        client.answer.granted = true;
        board_.wake_now(unit);
        open_++;
        return true;
    }

    Board &board_;
    Dram dram_;
    Request request_ = {};
    bool request_there_ = false, write_ = false, asked_ = false;
    uint32_t open_ = 0, open_seen_ = 0;     // bursts
    uint32_t due_ = 0;                      // beats of accepted write requests
    Fifo<Owner> owners_;
    uint64_t beats_[3] = {}, latest_[3] = {};       // moved; the cycle of the last one
};

}  // namespace lockstep

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

// The core: its parts in the order in which they are evaluated, and control (accel/hw/control.py).
class Core {
public:
    Core(const CycleConfig &config, int64_t *start, int64_t *retire)
        : config_(config), program_(decoded(config)),
          board_(*config.parameters, program_, config.timeline, start, retire, config.max_cycles),
          port_(board_, config.memory_bytes, config.dram), vector_(board_), gemm_(board_),
          load_(board_), store_(board_), fetch_(board_, config.base[0]) {}

    void run(CycleResult &result) {
        board_.wake_all();
        while (!done_ && board_.now < config_.max_cycles) {
            uint64_t next = board_.upcoming();
            if (stuck_) next = std::min(next, stuck_since_ + board_.p.patience - 1);
            if (next == NEVER) break;       // it waits for what does not come
            board_.advance(std::min(next, config_.max_cycles));
            cycle();
            if (board_.only(1u << MEMORY | 1u << unit::load)) stream();
        }
        finish(result);
    }

    const std::vector<int64_t> &rows(unsigned unit) const { return board_.activities[unit].rows; }

private:
    void cycle() {
        if (board_.is_due(MEMORY)) port_.step(fetch_, load_, store_);
        if (due(unit::vector)) vector_.step(gemm_.issue.hold());
        if (due(unit::gemm)) gemm_.step(vector_.issue.use);
        if (due(unit::load)) load_.step();
        if (due(unit::store)) store_.step();
        if (board_.is_due(unit::fetch)) fetch_.step(queues_, [this] { return quiet(); });
        control();
        board_.commit_tokens();
    }

    // Pass over cycles in which load takes beats and nothing else happens.
    void stream() {
        if (!load_.streams() || !port_.streams(fetch_, load_, store_)) return;
        uint64_t end = std::min(board_.next_timer(), config_.max_cycles);
        while (board_.now + 1 < end) {
            uint64_t most = std::min(load_.streaming(), port_.streaming());
            most = std::min(most, end - board_.now - 1);
            if (!most) return;
            load_.stream(uint32_t(most));
            port_.stream(uint32_t(most));
            board_.now += most;
        }
    }

    // Whether a unit is due; FINISH looks at all of them.
    bool due(unsigned unit) {
        bool result = board_.is_due(unit);
        if (result && fetch_.finishing()) board_.wake_now(unit::fetch);
        return result;
    }

    bool quiet() const {
        for (unsigned unit = 0; unit < UNITS; unit++)
            if (!seen_[unit]->idle || queues_[unit]->level(board_.now)) return false;
        return true;
    }

    void control() {
        Error error = board_.error;
        board_.error.there = false;
        if (port_.open() && !error.there && !fetch_.retires) {       // nothing ends
            stuck_ = false;
            return;
        }
        bool settled = !port_.open(), stuck = fetch_.blocked;
        for (unsigned unit = 0; settled && unit < UNITS; unit++) {
            settled = seen_[unit]->idle || seen_[unit]->blocked;
            stuck &= seen_[unit]->blocked || !queues_[unit]->level(board_.now);
        }
        stuck &= settled;
        if (board_.halt) {
            done_ = settled;
            return;
        }
        if (!stuck || !stuck_) stuck_since_ = board_.now;
        stuck_ = stuck;
        bool deadlock = stuck && board_.now - stuck_since_ == board_.p.patience - 1;
        if (error.there) end(error);
        else if (fetch_.retires) end({true, status::done, unit::fetch, fetch_.index()});
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

    void end(const Error &how) {
        how_ = how;
        ended_at_ = board_.now;
        stuck_ = false;
        board_.halt = true;
        board_.wake_all();
    }

    void finish(CycleResult &result) {
        bool done = done_ && board_.now < config_.max_cycles;
        result.cycles = board_.now + done;
        result.status = done ? how_.status : status::watchdog;
        bool known = done || ended_at_ < board_.now;
        result.unit = known ? how_.unit : 0;
        result.index = known ? how_.index : 0;
        for (unsigned unit = 0; unit < UNITS; unit++) {
            Activity &activity = board_.activities[unit];
            board_.close(activity, result.cycles);
            std::copy(activity.cycles, activity.cycles + activity::count, result.activity[unit]);
            result.rows[unit] = activity.rows.size() / 3;
            bool waits = waiting_ >> unit & 1;
            result.waiting[unit] = waits ? uint64_t(seen_[unit]->blocked_index) + 1 : 0;
        }
        for (unsigned client = 0; client < 3; client++)
            result.bytes[client] = port_.beats_before(client, result.cycles) << board_.p.bus_bits;
    }

    const CycleConfig config_;
    std::vector<Instruction> program_;
    Board board_;
    Port port_;
    Vector vector_;
    Gemm gemm_;
    Load load_;
    Store store_;
    Fetch fetch_;
    Commands *const queues_[UNITS] = {&load_.front.queue, &gemm_.issue.queue,
                                      &vector_.issue.queue, &store_.front.queue};
    const Seen *const seen_[UNITS] = {&load_.front.seen, &gemm_.issue.seen, &vector_.issue.seen,
                                      &store_.front.seen};
    Error how_ = {};
    uint64_t ended_at_ = NEVER, stuck_since_ = 0;
    uint32_t waiting_ = 0;          // mask of units, after a deadlock
    bool stuck_ = false, done_ = false;
};

}  // namespace

extern "C" {

// Run one program. `start` and `retire` have one element for each instruction, set to -1 by the
// caller. The result keeps the rows of the timeline until cycle_free.
void *cycle_run(const CycleConfig *config, int64_t *start, int64_t *retire, CycleResult *result) {
    auto core = std::make_unique<Core>(*config, start, retire);
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
