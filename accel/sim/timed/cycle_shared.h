// The shared scratchpad between load, store and the arbiter, cycle for cycle;
// accel/hw/moving/shared.py. A machine without one has none of its addresses: all passes.

#pragma once

#include "cycle_board.h"
#include "cycle_dma.h"

namespace lockstep {
namespace {

class Shared {
public:
    Shared(Board &board, uint32_t base) : board_(board), base_(base) {}

    bool is_there() const { return board_.p.shared_bytes; }

    // ---- what the arbiter sees: bursts of the memory -------------------------------------------

    bool requests(const Load &load) const {
        return load.requests() && (!is_there() || (room() && !owns(load.asked())));
    }
    bool requests(const Store &store) const {
        return store.requests() && (!is_there() || (!owns(store.asked()) && may_write(false)));
    }
    void granted(const Load &load) {
        if (is_there()) order_.push(board_.now, {false, load.asked().last});
    }
    void granted(const Store &) {
        if (is_there()) write_to(false);
    }
    // Whether a beat that the memory offers may pass to load; and that it does, or some do.
    bool passes() const {
        return !is_there() || (order_.valid(board_.now) && !order_.front().own && !there_);
    }
    void passed(uint32_t beats = 1) {
        if (is_there()) count(beats);
    }
    // Whether beats pass in the cycles to come.
    bool will_pass() const {
        return !is_there() || (!order_.empty() && !order_.front().own && beats_.empty());
    }
    void acknowledged() { unanswered_ -= is_there(); }

    // ---- its own part of a cycle, before the arbiter's -----------------------------------------

    void begin() {
        there_ = beats_.size();
        open_ = unanswered_;
    }

    void step(Load &load, Store &store) {
        if (!is_there()) return;
        uint64_t now = board_.now;
        bool there = there_ && beats_.front() <= now, head = order_.valid(now) && order_.front().own;
        bool full = there_ == timing::shared_room, has_room = room();
        if (there && load.takes_beat()) {
            beats_.pop();
            load.beat(false);
        }
        if (load.requests() && has_room && owns(load.asked())) {
            order_.push(now, {true, load.asked().last});
            count_for(load.asked());
            load.grant();
        }
        if (head && !full) {
            beats_.push(now + timing::shared_cycles + 1);
            count(1);
        }
        write(store);
    }

    // It is to be looked at in the next cycle, whatever the memory does.
    bool works(const Load &load, const Store &store) const {
        return is_there() && (!beats_.empty() || left_ || !acks_.empty() || load.requests()
                              || store.requests() || (!order_.empty() && order_.front().own));
    }
    uint64_t next_offer() const { return order_.next(board_.now); }

private:
    struct Burst {
        bool own;
        uint32_t last;          // beats, minus one
    };

    bool owns(const Request &request) const { return request.addr - base_ < board_.p.shared_bytes; }
    bool room() const { return order_.level(board_.now) != timing::bursts; }
    bool may_write(bool own) const { return !open_ || here_ == own; }

    // Beats of the oldest burst were read, here or from the memory.
    void count(uint32_t beats) {
        beat_ += beats;
        if (beat_ <= order_.front().last) return;
        beat_ = 0;
        order_.pop(board_.now);
    }

    void count_for(const Request &request) {
        board_.count(request.index, access::shared, request.last + 1);
    }

    void write_to(bool own) {
        here_ = own;
        unanswered_++;
    }

    void write(Store &store) {
        uint64_t now = board_.now;
        bool may = may_write(true), writes = left_ && store.has_beat(), ends = writes && left_ == 1;
        bool free = !left_ || ends;
        if (!acks_.empty() && acks_.front() == now) {
            acks_.pop();
            store.acknowledge(false);
            unanswered_--;
        }
        if (writes) {
            store.spend();
            left_--;
        }
        if (ends) acks_.push(now + 2);
        if (store.requests() && owns(store.asked()) && may && free) {
            left_ = store.asked().last + 1;
            count_for(store.asked());
            store.grant();
            write_to(true);
        }
    }

    Board &board_;
    const uint32_t base_;
    Registered<Burst, 1> order_;    // of reads, of both sides
    Fifo<uint64_t> beats_;          // that are on their way to load: when each is offered
    Fifo<uint64_t> acks_;           // when each is given
    uint32_t there_ = 0;            // of these beats, at the begin of this cycle
    uint32_t beat_ = 0;             // of the oldest burst
    uint32_t unanswered_ = 0;       // writes, all of one side
    uint32_t open_ = 0;             // of these, at the begin of this cycle
    uint32_t left_ = 0;             // beats of the burst that is written here
    bool here_ = false;
};

}  // namespace
}  // namespace lockstep
