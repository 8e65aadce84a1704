// gemm and vector of the cycle simulator; accel/hw/issue.py, gemm.py and vector.

#pragma once

#include "cycle_board.h"

namespace lockstep {
namespace {

// Banks of acc as the others see them in this cycle.
struct BankUse {
    uint32_t hold = 0, request = 0;
};

// Iterations that the loops have made and nobody has taken; `Ahead` in accel/hw/loops.py.
class Window {
public:
    // At the begin of this cycle.
    uint32_t level(uint64_t now) const {
        return items_.size() - (pushed_ == now) + (popped_ == now);
    }
    bool empty() const { return items_.empty(); }
    bool valid(uint64_t now) const {
        return !items_.empty()
               && std::max(items_.front() + timing::queue_cycles, popped_ + 1) <= now;
    }
    // Made now, and in the queue in cycle `queued`.
    void push(uint64_t now, uint64_t queued) {
        items_.push(queued);
        pushed_ = now;
    }
    void pop(uint64_t now) {
        items_.pop();
        popped_ = now;
    }

private:
    Fifo<uint64_t> items_;
    uint64_t pushed_ = NEVER, popped_ = 0;
};

// `Issue`: takes a unit's instructions and retires them.
class Issue {
public:
    Issue(Board &board, unsigned unit)
        : board_(board), unit_(unit), depth_(board.p.opened[unit]), others_(sharing(unit)),
          later_(sharing(unit, true)) {}

    Commands queue;
    Seen seen;
    BankUse use;

    // ---- of a cycle, in this order -----------------------------------------------------------

    // What the head of the queue waits for.
    void look() {
        valid_ = queue.valid(board_.now);
        head_ = valid_ ? queue.front() : 0;
        missing_ = valid_ ? board_.missing(unit_, board_.program[head_].waits) : 0;
        full_ = opened_ == depth_;
        arming_ = valid_ && !armed_ && !missing_ && !full_ && !board_.halt;
        use.hold = hold();
        use.request = armed_ ? board_.program[head_].banks : 0;
        board_.wake_now_all(later_);            // they look at requests
    }

    // The instruction that is taken, if its banks are free of `taken` ones. `ready`: the loops can
    // be loaded.
    const Instruction *grant(uint32_t taken, bool ready) {
        take_ = armed_ && ready && !(use.request & taken);
        return take_ ? &board_.program[head_] : nullptr;
    }

    uint32_t hold() const { return (users_[0] ? 1 : 0) | (users_[1] ? 2 : 0); }
    uint32_t index() const { return index_; }

    void done_at(uint64_t cycle, uint32_t banks) { dones_.push({cycle, banks}); }

    // The rest. Whether anything changed but the place in the loops.
    bool conclude(bool working, bool standing) {
        uint64_t now = board_.now;
        bool pauses = now == retired_at_ + 1, asks = finished_ && !granted_ && !pauses;
        uint32_t signals = finished_ ? board_.program[open_.front()].signals : 0;
        bool retires = granted_, refused = refused_;
        bool fits = asks && board_.fits(unit_, signals);
        bool answered = fits || refused_ != (asks && !fits) || (pauses && finished_);
        granted_ = fits;
        refused_ = asks && !fits;
        seen.idle = !opened_ && !armed_;
        seen.blocked = opened_ == finished_ && !armed_ && (seen.idle ? missing_ != 0 : refused);
        seen.blocked_index = seen.idle ? head_ : open_.front();
        show(working, standing, refused);

        bool done = !dones_.empty() && dones_.front().cycle == now;
        if (retires) {
            board_.retired(now, open_.front());
            board_.give(unit_, signals);
            retired_at_ = now;
            open_.pop();
            opened_--;
            finished_--;
        }
        if (done) {
            finished_++;
            release(dones_.front().banks);
            dones_.pop();
        }
        armed_ = armed_ ? !take_ : arming_;
        if (take_) start();
        return take_ || retires || done || arming_ || answered;
    }

    uint64_t next_event() const {
        uint64_t next = dones_.empty() ? NEVER : dones_.front().cycle;
        return std::min(next, queue.next(board_.now));
    }

private:
    struct Done {
        uint64_t cycle;
        uint32_t banks;
    };

    void start() {
        const Instruction &one = board_.program[head_];
        board_.take(unit_, one.waits);
        board_.started(board_.now + 1, head_);
        queue.pop(board_.now);
        board_.wake_next(unit::fetch);
        open_.push(head_);
        opened_++;
        index_ = head_;
        for (unsigned bank = 0; bank < BANKS; bank++) users_[bank] += one.banks >> bank & 1;
        board_.wake_next_all(others_);
    }

    void release(uint32_t banks) {
        for (unsigned bank = 0; bank < BANKS; bank++) users_[bank] -= banks >> bank & 1;
        board_.wake_next_all(others_);
    }

    void show(bool working, bool standing, bool refused) {
        bool waiting = valid_ && !board_.halt, begins = take_ || arming_;
        if (working) board_.does(unit_, standing && !begins ? activity::hazard : activity::busy, index_);
        else if (begins) board_.does(unit_, activity::busy, head_);
        else if (waiting && missing_) board_.does(unit_, activity::token_of(missing_), head_);
        else if (waiting && full_) board_.does(unit_, activity::signal, head_);
        else if (waiting) board_.does(unit_, activity::bank, head_);
        else if (refused) board_.does(unit_, activity::signal, open_.front());
        else board_.does(unit_, activity::command, -1);
    }

    Board &board_;
    const unsigned unit_;
    const uint32_t depth_;
    const uint32_t others_, later_;             // who shares the banks; after it in a cycle
    bool valid_ = false, full_ = false, arming_ = false, armed_ = false, take_ = false;
    uint32_t head_ = 0, missing_ = 0;
    uint32_t opened_ = 0, finished_ = 0;        // not retired; of these, done
    bool granted_ = false, refused_ = false;    // what the oldest asked for in the cycle before
    uint64_t retired_at_ = NEVER - 1;
    uint32_t users_[BANKS] = {};
    uint32_t index_ = 0;                        // loaded last
    Fifo<uint32_t> open_;                       // oldest first
    Fifo<Done> dones_;                          // last writes to come
};

// gemm of integers. Nothing in the pipeline ever waits, so an instruction's cycles are known when
// it is taken.
class Gemm {
public:
    explicit Gemm(Board &board)
        : issue(board, unit::gemm), board_(board) {}

    Issue issue;

    void step(uint32_t held) {
        uint64_t now = board_.now;
        bool working = working_ && now <= last_;
        issue.look();
        const Instruction *taken = issue.grant(held, !working || now == last_);
        bool changed = issue.conclude(working, false) || (working && now == last_);
        working_ = working;
        if (taken) load(*taken);
        if (changed) board_.go_on(unit::gemm);
        uint64_t next = issue.next_event();
        board_.set_timer(unit::gemm, working_ ? std::min(next, std::max(last_, now + 1)) : next);
    }

private:
    void load(const Instruction &one) {
        uint64_t first = board_.now + 1;
        working_ = true;
        last_ = first + one.count() - 1;
        issue.done_at(last_ + timing::nest_cycles + board_.p.write[unit::gemm], one.banks);
        Meetings meetings = {one.count(), one.folding()};
        if (board_.p.sums_stay) meetings = runs_of(one, board_.max_cycles);
        board_.count(issue.index(), access::iterations, one.count());
        board_.count(issue.index(), access::folds, meetings.folding);
        board_.count(issue.index(), access::weights, one.count());
        board_.count(issue.index(), access::meets, meetings.count);
        if (has_error(one, board_.p.bank_depth, board_.max_cycles))
            board_.fail(status::address, unit::gemm, issue.index());
    }

    Board &board_;
    bool working_ = false;
    uint64_t last_ = 0;             // cycle in which the loops make the last iteration
};

// What the units that issue from a slot differ in. `hazard`: how long after its issue an iteration
// keeps back those that read what it writes. `itself`: what an iteration reads is its destination.
struct Pace {
    unsigned unit;
    uint32_t write, fold, beats, hazard;
    bool itself;
};

inline Pace vector_pace(const Parameters &p, unsigned unit) {
    return {unit, p.write[unit], p.fold[unit], p.vector_beats, p.write[unit], false};
}

// Of floats, where `gemm_hazard` is not 0.
inline Pace gemm_pace(const Parameters &p) {
    uint32_t write = p.write[unit::gemm];
    return {unit::gemm, write, write, 1, p.gemm_hazard, true};
}

// A unit of vector, and gemm of floats: iterations wait in a slot for what is on its way to acc.
class Paced {
public:
    Paced(Board &board, const Pace &pace)
        : issue(board, pace.unit), board_(board), pace_(pace) {
        uint32_t size = 1;
        while (size <= std::max(pace.write, pace.hazard) + 1) size *= 2;
        history_.resize(size);
    }

    Issue issue;

    void step(uint32_t held) {
        uint64_t now = board_.now;
        bool full = slot_.full, final = full && (slot_.second || !slot_.instruction->twice);
        bool go = full && now >= slot_.clear
                  && !(slot_.instruction->reads_acc && folding(now));
        bool complete = final && slot_.beat + 1 == pace_.beats;
        bool free = !full || (go && complete), working = left_ || !made_.empty() || full;
        if (full && pace_.unit != unit::gemm) look_up(folding(now));
        bool makes = left_ && made_.level(now) != timing::ahead;
        issue.look();
        const Instruction *taken = issue.grant(held, !left_ || (makes && left_ == 1));
        bool changed = issue.conclude(working, full && !(go && final)) || working;

        if (go && final) issued(now, complete);
        if (free) {
            fill(now);
        } else if (go) {
            slot_.second = !final;
            slot_.beat += final;
        }
        if (makes) make(now);
        if (taken) load(*taken);
        if (changed) board_.go_on(pace_.unit);
        board_.set_timer(pace_.unit, issue.next_event());
    }

private:
    // The iteration that is being issued.
    struct Slot {
        bool full = false, second = false, last = false, folds = false;
        const Instruction *instruction = nullptr;
        uint32_t index = 0;
        uint32_t dst = 0, beat = 0;     // and which of its parts
        uint64_t clear = 0;             // first cycle in which its sources are written
    };
    struct Loaded {
        const Instruction *instruction;
        uint32_t index;
    };
    // What was issued in a cycle.
    struct Issued {
        uint64_t cycle = NEVER;
        uint32_t dst = 0;
        bool to_acc = false, folds = false;
    };

    // What the slot's iteration reads in a cycle, also while it waits.
    void look_up(bool folds) {
        const Instruction &one = *slot_.instruction;
        board_.count(slot_.index, access::acc, one.reads_acc && !folds);
        board_.count(slot_.index, access::res, one.reads_res);
        board_.count(slot_.index, access::par, one.reads_par);
    }

    void load(const Instruction &one) {
        left_ = one.illegal ? 1 : one.count();
        board_.count(issue.index(), access::iterations, left_);
        board_.count(issue.index(), access::folds, one.folding());
        if (pace_.unit == unit::gemm) {
            board_.count(issue.index(), access::weights, left_);
            board_.count(issue.index(), access::meets, left_);
        }
        if (has_error(one, board_.p.bank_depth, board_.max_cycles))
            board_.fail(one.illegal ? status::illegal : status::address, pace_.unit,
                        issue.index());
        loaded_.push({&one, issue.index()});
    }

    // An iteration leaves the loops; it is there `nest` cycles later.
    void make(uint64_t now) {
        made_.push(now, now + timing::nest_cycles);
        left_--;
    }

    // The next iteration, if it is there, enters the slot.
    void fill(uint64_t now) {
        slot_.full = made_.valid(now);
        if (!slot_.full) return;
        made_.pop(now);
        if (!stands_) {
            nest_.load(*loaded_.front().instruction);
            slot_.index = loaded_.front().index;
            loaded_.pop();
        } else {
            nest_.step();
        }
        const Instruction &one = nest_.instruction();
        stands_ = !nest_.last();
        slot_.second = false;
        slot_.beat = 0;
        slot_.last = nest_.last();
        slot_.instruction = &one;
        slot_.dst = nest_.address(DST);
        slot_.folds = one.folds && one.to_acc && !(one.reset && nest_.first());
        slot_.clear = (pace_.itself ? slot_.folds : one.reads_acc) ? written(now) : 0;
    }

    // The first cycle after the writes of what the slot's iteration reads, as far as those were
    // issued up to `now`.
    uint64_t written(uint64_t now) const {
        const Instruction &one = nest_.instruction();
        uint32_t mask = ~0u >> __builtin_clz(board_.p.depth[buffer::acc] - 1);
        for (uint32_t ago = 0; ago < pace_.hazard && ago <= now; ago++) {
            const Issued &before = at(now - ago);
            if (before.cycle != now - ago || !before.to_acc) continue;
            for (unsigned k : {DST, A, B})
                if ((pace_.itself ? k == DST : k != DST && one.in_acc[k])
                    && !((nest_.address(k) ^ before.dst) & mask))
                    return before.cycle + pace_.hazard + 1;
        }
        return 0;
    }

    // Whether an iteration reads its destination now.
    bool folding(uint64_t now) const {
        if (now < pace_.fold) return false;
        const Issued &before = at(now - pace_.fold);
        return before.cycle == now - pace_.fold && before.folds;
    }

    void issued(uint64_t now, bool complete) {
        const Instruction &one = *slot_.instruction;
        at(now) = {now, slot_.dst, one.to_acc, slot_.folds};
        if (slot_.last && complete) issue.done_at(now + pace_.write, one.banks);
    }

    Issued &at(uint64_t cycle) { return history_[cycle & (history_.size() - 1)]; }
    const Issued &at(uint64_t cycle) const { return history_[cycle & (history_.size() - 1)]; }

    Board &board_;
    const Pace pace_;
    uint64_t left_ = 0;                     // iterations to make of the instruction in the loops
    Window made_;                           // iterations between the loops and the slot
    Fifo<Loaded> loaded_;                   // whose first iteration is not in the slot yet
    Nest nest_;                             // the slot's place in the loops
    bool stands_ = false;                   // it is not at the last iteration
    Slot slot_;
    std::vector<Issued> history_;           // by cycle
};

}  // namespace
}  // namespace lockstep
