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
#include "cycle_shared.h"

namespace lockstep {
namespace {

// Reads the program, hands instructions on, performs FINISH; accel/hw/core/fetch.py.
class Fetch {
public:
    Fetch(Board &board, uint32_t base) : board_(board), base_(base) {}

    bool blocked = false, retires = false;

    uint32_t index() const { return index_; }
    bool finishing() const { return finishing_; }

    // ---- what the memory side looks at and does ------------------------------------------------

    bool requests() const { return requests_.valid(board_.now); }
    const Request &asked() const { return requests_.front(); }
    uint64_t next_offer() const { return requests_.next(board_.now); }
    void grant() {
        requests_.pop(board_.now);
        board_.go_on(unit::fetch);
    }
    // The last beat of a word.
    void arrive(bool error) {
        words_.push({board_.now, error});
        if (words_.size() == 1) board_.wake_at(unit::fetch, whole());
    }

    // `queues` in the order of units; `quiet`: they were empty and all units idle.
    void step(Commands *const *queues, bool quiet) {
        uint64_t now = board_.now;
        bool full = whole() <= now, there = full && !board_.halt, handed = false;
        bool was_finishing = finishing_, wanted = wants(full) && requests_.ready(now);
        blocked = retires = finishing_ = false;
        if (there && words_.front().error) {
            blocked = true;
            fail(status::bus);
        } else if (there) {
            uint32_t unit = board_.program[index_].unit;
            if (unit == unit::fetch) {
                finish(quiet, was_finishing);
            } else if (unit == NO_UNIT) {
                blocked = true;
                fail(status::illegal);
            } else {
                handed = queues[unit]->level(now) != board_.p.queue_depth;
                blocked = !handed;
                if (handed) hand(*queues[unit], unit);
            }
        } else {
            blocked = now >= timing::begin_cycles && index_ == count();
        }
        if (wanted) {
            uint32_t address = base_ + requested_ * word::BYTES >> board_.p.bus_bits;
            requests_.push(now, {address << board_.p.bus_bits, beats_of_word() - 1, requested_});
            board_.go_on(MEMORY);
            requested_++;
        }
        bool goes_on = finishing_ != was_finishing || handed
                       || (wants(full && !handed) && requests_.has_room());
        if (goes_on) board_.go_on(unit::fetch);
        uint64_t next = whole();
        if (now < timing::begin_cycles) next = timing::begin_cycles;
        board_.set_timer(unit::fetch, next > now ? next : NEVER);
    }

private:
    struct Word {
        uint64_t arrived;           // its last beat
        bool error;
    };

    uint32_t count() const { return uint32_t(board_.program.size()); }
    uint32_t beats_of_word() const { return std::max(1, word::BYTES >> board_.p.bus_bits); }

    // Whether another word is to be requested, with the one at hand `full` or not.
    bool wants(bool full) const {
        return board_.now >= timing::begin_cycles && !board_.halt && requested_ != count()
               && requested_ - index_ - full != timing::prefetch;
    }

    // From when on the oldest word is whole. A beat passes the queue and moves into the word; the
    // first one in the cycle after the word before is handed on, or later.
    uint64_t whole() const {
        if (words_.empty()) return NEVER;
        return std::max(words_.front().arrived + timing::queue_cycles + 1, handed_ + beats_of_word() + 1);
    }

    void hand(Commands &queue, uint32_t unit) {
        queue.push(board_.now, index_++);
        board_.wake_next(unit);
        words_.pop();
        handed_ = board_.now;
    }

    void finish(bool quiet, bool begun) {
        finishing_ = true;
        if (!begun) board_.started(board_.now, index_);
        bool settled = begun && quiet;
        blocked = !(settled && board_.no_tokens());
        if (!settled || over_) return;
        retires = !blocked;
        if (retires) board_.retired(board_.now, index_);
        else fail(status::tokens_left);
        over_ = true;
    }

    void fail(uint32_t status) { board_.fail(status, unit::fetch, index_); }

    Board &board_;
    const uint32_t base_;
    uint32_t requested_ = 0, index_ = 0;    // words; the one at hand
    uint64_t handed_ = 0;                   // when the word before it was
    Relay<Request> requests_;
    Fifo<Word> words_;                      // that have arrived
    bool finishing_ = false;
    bool over_ = false;                     // FINISH has retired, or found tokens
};

// The arbiter and the memory behind it; accel/hw/moving/arbiter.py.
class Port {
public:
    Port(Board &board, uint64_t memory_bytes, const DramTiming &timing, int64_t *accesses,
         uint32_t shared)
        : board_(board), shared_(board, shared),
          dram_(nullptr, memory_bytes, timing, accesses + access::rows, access::count) {}

    // Bursts that are under way at the begin of this cycle; one is for some cycles after its last.
    uint32_t open() const {
        uint64_t now = board_.now;
        uint32_t closed = 0;
        for (const Closed &one : closed_) closed += one.bursts * uint32_t(one.cycle + timing::closing_cycles > now);
        return open_ + closed - (granted_ == now);
    }
    // Whether there are, if that is plain.
    bool works() const { return open_ > 1; }
    // Moved, of fetch, load and store, as far as counters show it.
    uint64_t beats(unsigned client) const { return beats_[client]; }

    void step(Fetch &fetch, Load &load, Store &store) {
        uint64_t now = board_.now;
        bool full = open() == timing::bursts, data = store.has_beat() & (due_ != 0);
        shared_.begin();
        if (data) load.interrupt();
        if (streamed_ < stream_end_ && (data || now >= stream_end_)) follow(now);
        DramOffer offer = dram_.offer(now, data);
        DramTaken taken = {};
        shared_.step(load, store);
        if (now >= stream_end_) read(offer, taken, fetch, load);
        if (offer.ack_valid) {
            store.acknowledge(offer.ack_error);
            shared_.acknowledged();
            close();
        }
        taken.request = request_there_ && offer.request_ready;
        taken.addr = request_.addr;
        taken.beats = request_.last + 1;
        taken.write = write_;
        taken.owner = request_.index;
        taken.wdata = data && offer.wdata_ready;
        if (taken.wdata) {
            store.spend();
            moved(2, 1, now);
            due_--;
        }
        if (taken.request && write_) {
            due_ += taken.beats;
            board_.go_on(MEMORY);
        }
        bool free = (!request_there_ || offer.request_ready) && !full;
        if (offer.request_ready) request_there_ = false;
        if (free) grant(fetch, load, store);
        dram_.edge(now, taken);
        if (uint32_t beats = streaming(false, store)) stream(beats);
        set_timer(fetch, load, store);
    }

    // ---- cycles in which a beat of one burst is read, and none is written ----------------------

    // How many, after this cycle, if the client takes them; the last one of the burst does not
    // count.
    uint32_t streaming(bool to_load, const Store &store) const {
        uint64_t next = board_.now + 1;
        if (next <= stream_end_ || !owners_.valid(next) || owners_.front().load != to_load
            || (to_load && !shared_.will_pass()) || (store.has_beat() && due_))
            return 0;
        uint32_t beats = dram_.steady_reads(next);
        return beats ? beats - 1 : 0;
    }
    void stream(uint32_t cycles) {
        streamed_ = board_.now + 1;
        stream_end_ = streamed_ + cycles;
        board_.wake_at(MEMORY, stream_end_);
    }
    // The stream has come to this cycle, and ends before it.
    void follow(uint64_t cycle) {
        if (streamed_ == stream_end_) return;
        uint32_t beats = uint32_t(std::min(cycle, stream_end_) - streamed_);
        if (beats) {
            dram_.took_reads(streamed_, beats);
            moved(owners_.front().load ? 1 : 0, beats, streamed_ + beats - 1);
            if (owners_.front().load) shared_.passed(beats);
            beat_ += beats;
        }
        streamed_ = stream_end_ = std::min(cycle, stream_end_);
    }

private:
    static constexpr uint32_t CLOSING = 2;  // bursts that end in a cycle, at most

    struct Owner {
        bool load;
        uint32_t beats;
    };
    struct Closed {
        uint64_t cycle;
        uint32_t bursts;
    };

    // A burst ends in this cycle.
    void close() {
        open_--;
        if (closed_[0].cycle != board_.now) {
            std::copy_backward(closed_, std::end(closed_) - 1, std::end(closed_));
            closed_[0] = {board_.now, 0};
        }
        closed_[0].bursts++;
        if (request_there_) board_.go_on(MEMORY);       // the memory may have room for it
    }

    void set_timer(const Fetch &fetch, const Load &load, const Store &store) {
        uint64_t now = board_.now, next = dram_.next_offer(now, request_there_);
        next = std::min({next, store.next_offer(), owners_.next(now), after(now, stream_end_),
                         shared_.next_offer()});
        if (shared_.works(load, store)) next = now + 1;
        // Who asks wakes this part in the next cycle.
        if (timing::relay_cycles > 1)
            next = std::min({next, fetch.next_offer(), load.next_offer()});
        // How many are open matters when it is none, or when there may be no room for more.
        if (!open_ || open_ + timing::closing_cycles * CLOSING >= timing::bursts)
            for (const Closed &one : closed_)
                if (one.bursts) next = std::min(next, after(now, one.cycle + timing::closing_cycles));
        board_.set_timer(MEMORY, next);
    }

    void moved(unsigned client, uint32_t beats, uint64_t latest) {
        uint64_t counted = board_.max_cycles + 1;           // cycles, and the counters' delay
        uint64_t late = latest + timing::counter_cycles + 1;
        beats_[client] += beats - std::min<uint64_t>(beats, late - std::min(late, counted));
    }

    // A beat for the owner of the oldest burst.
    void read(const DramOffer &offer, DramTaken &taken, Fetch &fetch, Load &load) {
        if (!offer.read_valid || !owners_.valid(board_.now)) return;
        Owner owner = owners_.front();
        taken.read = !owner.load || (load.takes_beat() && shared_.passes());
        if (owner.load && !shared_.passes()) board_.go_on(MEMORY);      // it stays offered
        if (!taken.read) return;
        moved(owner.load ? 1 : 0, 1, board_.now);
        bool last = ++beat_ == owner.beats;
        if (owner.load) {
            shared_.passed();
            load.beat(offer.read_error);
        }
        if (!owner.load && last) fetch.arrive(offer.read_error);
        if (last) {
            beat_ = 0;
            owners_.pop(board_.now);
            close();
        }
    }

    // The request of the first client that has one.
    void grant(Fetch &fetch, Load &load, Store &store) {
        if (fetch.requests()) {
            enter(fetch, unit::fetch);
        } else if (shared_.requests(store)) {
            shared_.granted(store);
            enter(store, unit::store);
        } else if (shared_.requests(load)) {
            shared_.granted(load);
            enter(load, unit::load);
        }
    }

    template <typename Client> void enter(Client &client, unsigned unit) {
        request_ = client.asked();
        request_there_ = true;
        write_ = unit == unit::store;
        if (!write_) owners_.push(board_.now, {unit == unit::load, request_.last + 1});
        client.grant();
        granted_ = board_.now;
        open_++;
        board_.go_on(MEMORY);
    }

    Board &board_;
    Shared shared_;
    Dram dram_;
    Request request_ = {};
    bool request_there_ = false, write_ = false;
    uint32_t open_ = 0;                     // bursts, after this cycle
    uint64_t granted_ = NEVER;              // when the latest was
    Closed closed_[timing::closing_cycles] = {};    // the latest
    uint32_t due_ = 0;                      // beats of accepted write requests
    uint32_t beat_ = 0;                     // of the oldest burst that is read
    Registered<Owner> owners_;
    uint64_t beats_[3] = {};                        // moved
    uint64_t streamed_ = 0, stream_end_ = 0;        // all above is as it was in the former
};

}  // namespace
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

// The core: its parts in the order in which they are evaluated; control (accel/hw/core/control.py).
class Core {
public:
    Core(const CycleConfig &config, int64_t *start, int64_t *retire, int64_t *accesses)
        : config_(config), program_(decoded(config)),
          board_(*config.parameters, program_, config.timeline, start, retire, accesses,
                 config.max_cycles),
          port_(board_, config.memory_bytes, config.dram, accesses, config.base[2]),
          gemm_(board_), floats_(board_, gemm_pace(board_.p)), weights_(board_),
          load_(board_), store_(board_), fetch_(board_, config.base[0]) {
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
        if (board_.is_due(MEMORY)) port_.step(fetch_, load_, store_);
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
        if (cycles) cycles = std::min(cycles, port_.streaming(true, store_));
        if (!cycles) return;
        load_.stream(cycles);
        port_.stream(cycles);
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
        if (port_.works() && ending_at_ == NEVER && !fetch_.retires) {
            settled_since_ = NEVER;
            stuck_ = false;
            return;                     // nothing ends
        }
        if (ending_at_ == NEVER && fetch_.retires) ending_at_ = now + timing::status_cycles - 1;
        bool settled = !port_.open(), stuck = fetch_.blocked;
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
        port_.follow(board_.now + 1);
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
            result.bytes[client] = port_.beats(client) << board_.p.bus_bits;
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
    Port port_;
    std::unique_ptr<Paced> vectors_[UNITS];     // by unit
    Gemm gemm_;
    Paced floats_;                  // in place of `gemm_` where it accumulates floats
    Stationary weights_;            // in place of it where weights stay
    Issue &gemm_issue_ = board_.p.weight_cycles ? weights_.issue
                         : board_.p.gemm_hazard ? floats_.issue : gemm_.issue;
    Load load_;
    Store store_;
    Fetch fetch_;
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
