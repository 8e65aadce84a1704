// gemm and vector of the cycle simulator; accel/hw/issue.py, gemm.py and vector.py.

#pragma once

#include "cycle_board.h"

namespace lockstep {

// Banks of acc as the other unit sees them in this cycle.
struct BankUse {
    uint32_t hold = 0, request = 0;
};

// `Issue`: takes a unit's instructions and retires them.
class Issue {
public:
    Issue(Board &board, unsigned unit, uint32_t depth, unsigned other)
        : board_(board), unit_(unit), depth_(depth), other_(other) {}

    Commands queue;
    Seen seen;
    BankUse use;

    // ---- of a cycle, in this order -----------------------------------------------------------

    // What the head of the queue waits for. `ready`: the loops can be loaded.
    void look(bool ready) {
        valid_ = !queue.empty();
        head_ = valid_ ? queue.head() : 0;
        missing_ = valid_ ? board_.missing(unit_, board_.program[head_].waits) : 0;
        room_ = opened_ != depth_;
        bool willing = valid_ && ready && !missing_ && room_ && !board_.halt;
        use.hold = hold();
        use.request = willing ? board_.program[head_].banks : 0;
        willing_ = willing;
    }

    // The instruction that is taken, if its banks are free of `taken` ones.
    const Instruction *grant(uint32_t taken) {
        take_ = willing_ && !(use.request & taken);
        return take_ ? &board_.program[head_] : nullptr;
    }

    uint32_t hold() const { return (users_[0] ? 1 : 0) | (users_[1] ? 2 : 0); }
    uint32_t index() const { return index_; }

    void done_at(uint64_t cycle, uint32_t banks) { dones_.push({cycle, banks}); }
    void error_at(uint64_t cycle, uint32_t status, uint32_t index) {
        errors_.push({cycle, status, index});
    }

    // The rest. Whether anything changed but the place in the loops.
    bool conclude(bool working, bool stepping) {
        uint64_t now = board_.now;
        bool signal = finished_ != 0;
        uint32_t signals = signal ? board_.program[open_.front()].signals : 0;
        bool retires = signal && board_.fits(unit_, signals), refused = signal && !retires;
        seen.idle = !opened_;
        seen.blocked = opened_ == finished_ && (seen.idle ? missing_ != 0 : refused);
        seen.blocked_index = seen.idle ? head_ : open_.front();
        if (!errors_.empty() && errors_.front().cycle == now) {
            board_.fail(errors_.front().status, unit_, errors_.front().index);
            errors_.pop();
        }
        show(working, stepping, refused);

        bool done = !dones_.empty() && dones_.front().cycle == now;
        if (retires) {
            board_.retired(now, open_.front());
            board_.give(unit_, signals);
            open_.pop();
            opened_--;
            finished_--;
        }
        if (done) {
            finished_++;
            release(dones_.front().banks);
            dones_.pop();
        }
        if (take_) start();
        return take_ || retires || done;
    }

    uint64_t next_event() const {
        uint64_t next = dones_.empty() ? NEVER : dones_.front().cycle;
        return errors_.empty() ? next : std::min(next, errors_.front().cycle);
    }

private:
    struct Done {
        uint64_t cycle;
        uint32_t banks;
    };
    struct Late {
        uint64_t cycle;
        uint32_t status, index;
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
        board_.wake_next(other_);
    }

    void release(uint32_t banks) {
        for (unsigned bank = 0; bank < BANKS; bank++) users_[bank] -= banks >> bank & 1;
        board_.wake_next(other_);
    }

    void show(bool working, bool stepping, bool refused) {
        bool waiting = valid_ && !board_.halt;
        if (working) board_.does(unit_, stepping || take_ ? activity::busy : activity::hazard, index_);
        else if (take_) board_.does(unit_, activity::busy, head_);
        else if (waiting && missing_) board_.does(unit_, activity::token_of(missing_), head_);
        else if (waiting && !room_) board_.does(unit_, activity::signal, head_);
        else if (waiting) board_.does(unit_, activity::bank, head_);
        else if (refused) board_.does(unit_, activity::signal, open_.front());
        else board_.does(unit_, activity::command, -1);
    }

    Board &board_;
    const unsigned unit_;
    const uint32_t depth_;
    const unsigned other_;                      // who shares the banks
    bool valid_ = false, room_ = true, willing_ = false, take_ = false;
    uint32_t head_ = 0, missing_ = 0;
    uint32_t opened_ = 0, finished_ = 0;        // not retired; of these, done
    uint32_t users_[BANKS] = {};
    uint32_t index_ = 0;                        // loaded last
    Fifo<uint32_t> open_;                       // oldest first
    Fifo<Done> dones_;                          // last writes to come
    Fifo<Late> errors_;
};

// Nothing in the pipeline ever waits, so an instruction's cycles are known when it is taken.
class Gemm {
public:
    explicit Gemm(Board &board)
        : issue(board, unit::gemm, board.p.gemm_depth, unit::vector), board_(board) {}

    Issue issue;

    void step(const BankUse &vector) {
        uint64_t now = board_.now;
        bool working = working_ && now <= last_;
        issue.look(!working || now == last_);
        const Instruction *taken = issue.grant(vector.hold | vector.request);
        bool changed = issue.conclude(working, true) || (working && now == last_);
        working_ = working;
        if (taken) load(*taken);
        if (changed) board_.go_on(unit::gemm);
        uint64_t next = issue.next_event();
        if (working_) next = std::min(next, std::max(last_, now + 1));
        board_.set_timer(unit::gemm, next);
    }

private:
    void load(const Instruction &one) {
        uint64_t first = board_.now + 1;
        working_ = true;
        last_ = first + one.count() - 1;
        issue.done_at(last_ + board_.p.gemm_write, one.banks);
        uint64_t wrong = first_error(one, board_.p.bank_depth, board_.max_cycles);
        if (wrong != NEVER) issue.error_at(first + wrong + 1, status::address, issue.index());
    }

    Board &board_;
    bool working_ = false;
    uint64_t last_ = 0;             // cycle of the last iteration
};

class Vector {
public:
    explicit Vector(Board &board)
        : issue(board, unit::vector, board.p.vector_depth, unit::gemm), board_(board) {
        uint32_t size = 1;
        while (size <= board.p.vector_write + 1) size *= 2;
        history_.resize(size);
    }

    Issue issue;

    void step(uint32_t held) {
        uint64_t now = board_.now;
        uint32_t request = issue.use.request;
        bool changed = now < free_run_ ? front(held, false, true, true) : advance(held);
        if (issue.use.request != request) board_.wake_now(unit::gemm);
        if (changed) board_.go_on(unit::vector);
        uint64_t next = issue.next_event();
        if (free_run_ > now) next = std::min(next, free_run_);
        board_.set_timer(unit::vector, next);
    }

private:
    // The iteration that is being issued.
    struct Slot {
        bool full = false, second = false, last = false, folds = false;
        const Instruction *instruction = nullptr;
        uint32_t dst = 0;
        uint64_t clear = 0;             // first cycle in which its sources are written
    };
    // What was issued in a cycle.
    struct Issued {
        uint64_t cycle = NEVER;
        uint32_t dst = 0;
        bool to_acc = false, folds = false;
    };

    bool front(uint32_t held, bool ready, bool working, bool stepping) {
        issue.look(ready);
        taken_ = issue.grant(held);
        return issue.conclude(working, stepping);
    }

    // A cycle in which iterations are followed one by one.
    bool advance(uint32_t held) {
        uint64_t now = board_.now;
        if (free_run_ == now) end_free_run();
        bool full = slot_.full, final = full && (slot_.second || !slot_.instruction->twice);
        bool go = full && now >= slot_.clear
                  && !(slot_.instruction->reads_acc && folding(now));
        bool free = !full || (go && final), working = working_;
        bool ends = working && free && nest_.last();
        bool changed = front(held, !working || ends, working, free);

        if (go && final) issued(now);
        if (free) fill(now);
        else if (go) slot_.second = true;
        if (ends) working_ = false;
        else if (working && free) nest_.step();
        if (taken_) load(*taken_);
        changed |= full || working;
        if (runs_free(now)) changed = begin_free_run(now);
        return changed;
    }

    void load(const Instruction &one) {
        working_ = true;
        index_ = issue.index();
        nest_.load(one);
        wrong_ = first_error(one, board_.p.bank_depth, board_.max_cycles);
    }

    // The iteration at the loops' outputs, if any, enters the slot.
    void fill(uint64_t now) {
        slot_.full = working_;
        if (!working_) return;
        const Instruction &one = nest_.instruction();
        if (nest_.iteration() == wrong_) fail(now + 1);
        slot_.second = false;
        slot_.last = nest_.last();
        slot_.instruction = &one;
        slot_.dst = nest_.address(DST);
        slot_.folds = one.folds && one.to_acc && !(one.reset && nest_.first());
        slot_.clear = one.reads_acc ? written(now) : 0;
    }

    void fail(uint64_t cycle) {
        issue.error_at(cycle, nest_.instruction().illegal ? status::illegal : status::address,
                       index_);
    }

    // The first cycle after the writes of what the loops' iteration reads, as far as those were
    // issued up to `now`.
    uint64_t written(uint64_t now) const {
        const Instruction &one = nest_.instruction();
        uint32_t mask = board_.p.depth[buffer::acc] - 1;
        for (uint32_t ago = 0; ago < board_.p.vector_write && ago <= now; ago++) {
            const Issued &before = at(now - ago);
            if (before.cycle != now - ago || !before.to_acc) continue;
            for (unsigned k : {A, B})
                if (one.in_acc[k] && !((nest_.address(k) ^ before.dst) & mask))
                    return before.cycle + board_.p.vector_write + 1;
        }
        return 0;
    }

    // Whether an iteration reads its destination now.
    bool folding(uint64_t now) const {
        if (now < board_.p.vector_fold) return false;
        const Issued &before = at(now - board_.p.vector_fold);
        return before.cycle == now - board_.p.vector_fold && before.folds;
    }

    void issued(uint64_t now) {
        const Instruction &one = *slot_.instruction;
        at(now) = {now, slot_.dst, one.to_acc, slot_.folds};
        if (one.to_acc) last_to_acc_ = now;
        if (slot_.last) issue.done_at(now + board_.p.vector_write, one.banks);
    }

    // ---- iterations that follow each other without a gap --------------------------------------

    // From the next cycle on, until the loops show the instruction's last iteration.
    bool runs_free(uint64_t now) const {
        if (!working_ || !slot_.full || slot_.instruction != &nest_.instruction()) return false;
        const Instruction &one = nest_.instruction();
        bool apart = !one.reads_acc
                     || (!one.to_acc && last_to_acc_ + board_.p.vector_write < now + 1);
        return apart && !one.twice && slot_.clear <= now + 1
               && nest_.iteration() + 2 < nest_.count();
    }

    bool begin_free_run(uint64_t now) {
        uint64_t left = nest_.count() - 1 - nest_.iteration();
        free_run_ = now + 1 + left;
        if (wrong_ != NEVER && wrong_ >= nest_.iteration() && wrong_ + 1 < nest_.count())
            fail(now + 2 + wrong_ - nest_.iteration());
        return true;
    }

    // In its last cycle: the loops are at the last iteration, the slot has the one before.
    void end_free_run() {
        uint64_t now = board_.now, count = nest_.count(), begin = free_begin_of(count);
        const Instruction &one = nest_.instruction();
        if (one.to_acc) {
            uint64_t most = std::min<uint64_t>(board_.p.vector_write, now - begin);
            for (uint64_t ago = 1; ago <= most; ago++) remember(now - ago, count - 2 - ago);
            last_to_acc_ = now - 1;
        }
        nest_.seek(count - 2);
        slot_.last = false;
        slot_.dst = nest_.address(DST);
        slot_.folds = one.folds && one.to_acc && !(one.reset && nest_.first());
        slot_.clear = 0;
        nest_.seek(count - 1);
    }

    // The cycle in which it issued its first iteration.
    uint64_t free_begin_of(uint64_t count) const {
        return free_run_ - (count - 1 - nest_.iteration());
    }

    void remember(uint64_t cycle, uint64_t iteration) {
        Nest place = nest_;
        place.seek(iteration);
        const Instruction &one = nest_.instruction();
        at(cycle) = {cycle, place.address(DST), true,
                     one.folds && !(one.reset && place.first())};
    }

    Issued &at(uint64_t cycle) { return history_[cycle & (history_.size() - 1)]; }
    const Issued &at(uint64_t cycle) const { return history_[cycle & (history_.size() - 1)]; }

    Board &board_;
    Nest nest_;
    bool working_ = false;
    uint32_t index_ = 0;                    // of the instruction in the loops
    uint64_t wrong_ = NEVER;                // its first iteration with an error
    const Instruction *taken_ = nullptr;
    Slot slot_;
    std::vector<Issued> history_;           // by cycle
    uint64_t last_to_acc_ = 0;              // cycle of the last issue with a destination in acc
    uint64_t free_run_ = 0;                 // cycle in which iterations are followed again
};

}  // namespace lockstep
