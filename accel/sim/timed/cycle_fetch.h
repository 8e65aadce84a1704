// fetch of the cycle simulator; accel/hw/core/fetch.py.

#pragma once

#include "cycle_dma.h"

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

}  // namespace
}  // namespace lockstep
