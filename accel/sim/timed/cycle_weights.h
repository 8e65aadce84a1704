// gemm of the cycle simulator with an array that keeps its weights; accel/hw/compute/arrays.py,
// weights.py.

#pragma once

#include "cycle_compute.h"

namespace lockstep {
namespace {

// Iterations wait for the weights of their tiles, which come in a column a cycle.
class Stationary {
public:
    explicit Stationary(Board &board) : issue(board, unit::gemm), board_(board) {}

    Issue issue;

    void step(uint32_t held) {
        uint64_t now = board_.now;
        bool there = made_.valid(now), fresh = there && iterations_.front().fresh;
        bool go = there && (!fresh || full_), taken = go && fresh;
        bool reads = tiles_.valid(now) && (!full_ || taken);
        bool working = left_ || !made_.empty();
        bool makes = left_ && made_.level(now) != board_.p.gemm_ahead;
        issue.look();
        const Instruction *one = issue.grant(held, !left_ || (makes && left_ == 1));
        bool changed = issue.conclude(working, there && !go) || working;

        full_ = full_ && !taken;
        if (reads && ++column_ == board_.p.weight_cycles) {
            column_ = 0;
            full_ = true;
            tiles_.pop(now);
        }
        if (go) {
            if (iterations_.front().last)
                issue.done_at(now + board_.p.write[unit::gemm], iterations_.front().banks);
            iterations_.pop();
            made_.pop(now);
        }
        if (makes) make(now);
        if (one) load(*one);
        if (changed) board_.go_on(unit::gemm);
        board_.set_timer(unit::gemm, issue.next_event());
    }

private:
    struct Iteration {
        bool fresh, last;           // it needs other weights than the one before
        uint32_t banks;
    };

    void load(const Instruction &one) {
        instruction_ = &one;
        index_ = issue.index();
        left_ = one.count();
        board_.count(issue.index(), access::iterations, left_);
        board_.count(issue.index(), access::folds, one.folding());
        board_.count(issue.index(), access::meets, left_);
        if (has_error(one, board_.p.bank_depth, board_.max_cycles))
            board_.fail(status::address, unit::gemm, issue.index());
    }

    // An iteration leaves the loops; it is there `nest` cycles later, and so is its tile.
    void make(uint64_t now) {
        if (begins_) nest_.load(*instruction_);
        else nest_.step();
        uint32_t tile = nest_.address(B);
        bool fresh = begins_ || tile != tile_;
        tile_ = tile;
        begins_ = nest_.last();
        iterations_.push({fresh, begins_, instruction_->banks});
        made_.push(now, now + timing::nest_cycles);
        left_--;
        if (!fresh) return;
        tiles_.push(now + timing::nest_cycles, tile);
        board_.count(index_, access::weights, board_.p.weight_cycles);
    }

    Board &board_;
    const Instruction *instruction_ = nullptr;  // whose iterations the loops make
    uint32_t index_ = 0;                    // its place in the stream
    uint64_t left_ = 0;                     // iterations to make of it
    Nest nest_;                             // the place in the loops
    bool begins_ = true;                    // an instruction begins
    uint32_t tile_ = 0;                     // of the iteration that was made last
    Window made_;                           // iterations between the loops and the array
    Fifo<Iteration> iterations_;            // what they are
    Registered<uint32_t> tiles_;            // tiles to come
    uint32_t column_ = 0;                   // columns of the first of them that were read
    bool full_ = false;                     // it is there, and no iteration uses it
};

}  // namespace
}  // namespace lockstep
