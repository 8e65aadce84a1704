// What the parts of the cycle simulator share: time, tokens, events, activities, errors.
//
// A cycle is evaluated part by part, those first that others depend on within the cycle. A part is
// skipped while nothing of it, and nothing that it offers, can change; its state then stands for
// the cycles in between. So a part that changed anything asks to be evaluated in the next cycle;
// one that changed nothing says when it will by itself; and who changes what a part looks at wakes
// it up.

#pragma once

#include "cycle_program.h"

namespace lockstep {
namespace {

constexpr unsigned MEMORY = unit::fetch + 1, PARTS = MEMORY + 1;

// Of one unit: what it does since when, the sums so far, and all rows if they are wanted.
struct Activity {
    uint32_t what = activity::command;
    int64_t index = -1;
    uint64_t since = 0;
    uint64_t cycles[activity::count] = {};
    std::vector<int64_t> rows;
};

struct Error {
    bool there;
    uint32_t status, unit, index;
};

class Board {
public:
    Board(const Parameters &parameters, const std::vector<Instruction> &program, bool timeline,
          int64_t *start, int64_t *retire, int64_t *accesses, uint64_t max_cycles)
        : p(parameters), program(program), max_cycles(max_cycles), timeline_(timeline),
          start_(start), retire_(retire), accesses_(accesses) {
        std::fill(timers_, timers_ + PARTS, NEVER);
    }

    const Parameters &p;
    const std::vector<Instruction> &program;
    const uint64_t max_cycles;
    uint64_t now = 0;
    bool halt = false;              // nothing new may start

    // ---- time --------------------------------------------------------------------------------

    void wake_now(unsigned part) { due_ |= 1u << part; }
    void wake_now_all(uint32_t parts) { due_ |= parts; }
    void go_on(unsigned part) { next_ |= 1u << part; }      // by itself
    void wake_next(unsigned part) { poked_next_ |= 1u << part; }
    void wake_next_all(uint32_t parts) { poked_next_ |= parts; }
    void wake_all() { poked_next_ = (1u << PARTS) - 1; }
    // When a part is evaluated at the latest; each says so whenever it is.
    void set_timer(unsigned part, uint64_t cycle) { timers_[part] = cycle; }
    void wake_at(unsigned part, uint64_t cycle) {
        timers_[part] = std::min(timers_[part], cycle);
    }

    bool is_due(unsigned part) const { return due_ >> part & 1; }
    // Another unit has changed what this one looks at.
    bool is_poked(unsigned part) const { return poked_ >> part & 1; }

    // The next cycle in which a part is due; NEVER if there is none.
    uint64_t upcoming() const {
        uint64_t next = next_ | poked_next_ ? now + 1 : NEVER;
        for (uint64_t timer : timers_) next = std::min(next, timer);
        return next;
    }
    void advance(uint64_t to) {
        now = to;
        poked_ = poked_next_;
        due_ = next_ | poked_;
        next_ = poked_next_ = 0;
        for (unsigned part = 0; part < PARTS; part++)
            due_ |= uint32_t(timers_[part] <= now) << part;
    }

    // ---- tokens: accel/hw/core/tokens.py -------------------------------------------------------

    uint32_t missing(unsigned to, uint32_t waits) const { return waits & ~there_[to]; }
    bool fits(unsigned from, uint32_t signals) const { return !(signals & full_[from]); }
    // They are gone, for all who look, one cycle later than those that are given are there.
    void take(unsigned to, uint32_t waits) {
        if (!waits) return;
        taken_[to] = waits;
        took_ = true;
        wake_next(to);
    }
    void give(unsigned from, uint32_t signals) {
        for (unsigned to = 0; signals >> to; to++)
            if (signals >> to & 1) {
                change_[from][to]++;
                wake_next(to);
                changed_ = true;
            }
    }
    bool no_tokens() const {
        return std::all_of(there_, there_ + UNITS, [](uint32_t from) { return !from; });
    }
    void commit_tokens() {
        if (taking_) {
            for (unsigned to = 0; to < UNITS; to++)
                for (unsigned from = 0; taking_of_[to] >> from; from++)
                    if (taking_of_[to] >> from & 1) {
                        change_[from][to]--;
                        wake_next(from);
                        wake_next(to);
                        changed_ = true;
                    }
            taking_ = false;
        }
        if (took_) {
            std::copy(taken_, taken_ + UNITS, taking_of_);
            std::fill(taken_, taken_ + UNITS, 0);
            taking_ = true;
            took_ = false;
        }
        if (!changed_) return;
        changed_ = false;
        std::fill(there_, there_ + UNITS, 0);
        std::fill(full_, full_ + UNITS, 0);
        for (unsigned from = 0; from < UNITS; from++)
            for (unsigned to = 0; to < UNITS; to++) {
                uint32_t &count = tokens_[from][to];
                count += uint32_t(change_[from][to]);
                change_[from][to] = 0;
                there_[to] |= uint32_t(count != 0) << from;
                full_[from] |= uint32_t(count == timing::tokens) << to;
            }
    }

    // ---- what is seen from outside -----------------------------------------------------------

    void started(uint64_t cycle, uint32_t index) { start_[index] = int64_t(cycle); }
    void retired(uint64_t cycle, uint32_t index) { retire_[index] = int64_t(cycle); }
    // Accesses of one kind (`access`) that an instruction makes.
    void count(uint32_t index, uint32_t kind, uint64_t number) {
        accesses_[uint64_t(index) * access::count + kind] += int64_t(number);
    }

    // Of all errors that of the lowest instruction counts, and of its own the first. When the
    // hardware sees it is of no matter: before a run ends.
    void fail(uint32_t status, uint32_t unit, uint32_t index) {
        if (!error.there || index < error.index) error = {true, status, unit, index};
    }
    Error error = {};

    Activity activities[UNITS];
    void does(unsigned unit, uint32_t what, int64_t index) {
        Activity &own = activities[unit];
        if (own.what == what && (own.index == index || !timeline_)) return;
        if (now + timing::counter_cycles > max_cycles) return;  // after what counters show last
        close(own, now);
        own.what = what;
        own.index = index;
        own.since = now;
    }
    void close(Activity &own, uint64_t end) {
        own.cycles[own.what] += end - own.since;
        if (timeline_ && end > own.since)
            own.rows.insert(own.rows.end(), {int64_t(own.since), int64_t(own.what), own.index});
    }

private:
    uint32_t due_ = 0, next_ = 0, poked_ = 0, poked_next_ = 0;
    uint64_t timers_[PARTS];
    uint32_t tokens_[UNITS][UNITS] = {};
    uint32_t there_[UNITS] = {}, full_[UNITS] = {};     // masks: from whom; for whom it is full
    int32_t change_[UNITS][UNITS] = {};
    uint32_t taken_[UNITS] = {}, taking_of_[UNITS] = {};    // in this cycle; in the one before
    bool took_ = false, taking_ = false, changed_ = false, timeline_;
    int64_t *start_, *retire_, *accesses_;
};

// A queue that offers its items from a register; accel/hw/queue.py. What is pushed in cycle t is
// offered in t + LATENCY, or PAUSE + 1 cycles after the item before it has left. Items may be pushed
// before their time.
template <typename T, uint64_t LATENCY = timing::queue_cycles, uint64_t PAUSE = 0> class Registered {
public:
    bool empty() const { return items_.empty(); }
    uint32_t size() const { return items_.size(); }
    // At the begin of this cycle, whatever came and went since.
    uint32_t level(uint64_t now) const {
        return items_.size() - (pushed_ == now) + (popped_ == now);
    }
    bool valid(uint64_t now) const { return offered_ <= now; }
    const T &front() const { return items_.front().item; }
    // When the first item is offered, if that is to come.
    uint64_t next(uint64_t now) const { return after(now, offered_); }
    void push(uint64_t cycle, const T &item) {
        if (items_.empty()) offered_ = cycle + LATENCY;
        items_.push({item, cycle});
        pushed_ = cycle;
    }
    void pop(uint64_t now) {
        items_.pop();
        popped_ = now;
        offered_ = items_.empty() ? NEVER
                                  : std::max(items_.front().pushed + LATENCY, now + PAUSE + 1);
    }

private:
    struct Stored {
        T item;
        uint64_t pushed;
    };
    Fifo<Stored> items_;
    uint64_t pushed_ = NEVER, popped_ = NEVER, offered_ = NEVER;
};

// Two registers, or a queue of few items.
template <typename T> class Relay : public Registered<T, timing::relay_cycles> {
public:
    bool ready(uint64_t now) const { return this->level(now) < timing::relay_room; }
    // At the end of this cycle.
    bool has_room() const { return this->size() < timing::relay_room; }
};

// The commands that wait for a unit.
using Commands = Registered<uint32_t, timing::queue_cycles, 1>;

// What control and fetch see of a unit in this cycle.
struct Seen {
    bool idle = true, blocked = false;
    uint32_t blocked_index = 0;
};

}  // namespace
}  // namespace lockstep
