// load and store of the cycle simulator; accel/hw/dma.py, load.py and store.py.

#pragma once

#include "cycle_board.h"

namespace lockstep {

struct Request {
    uint32_t addr, last;        // beats minus one
};

// One iteration of a DMA instruction.
struct DmaRun {
    uint32_t dram, address, run, index;
    bool pad, last;
};

// `Front`: takes instructions, walks their loops, retires them in order.
class Front {
public:
    Front(Board &board, unsigned unit) : board_(board), unit_(unit) {}

    Commands queue;
    Seen seen;

    bool has_run() const { return ahead_.valid(board_.now); }
    const DmaRun &run() const { return ahead_.front(); }

    // One cycle. `accepted`: its run; `moving`: the data path moves bytes, of instruction `moved`
    // (and is not drained then); the others as in dma.py.
    void step(bool accepted, bool completed, bool completed_error, bool moving, uint32_t moved,
              bool drained) {
        bool stands = board_.now < next_ && !(accepted || completed || board_.is_poked(unit_));
        bool same = moving == moving_ && drained == drained_;
        moving_ = moving;
        drained_ = drained;
        if (!stands || !(same || moving)) {
            advance(accepted, completed, completed_error, moving, moved, drained);
        } else if (moving) {
            seen.idle = seen.blocked = false;
            board_.does(unit_, activity::busy, moved);
        }
    }

    // When it is to be evaluated at the latest.
    uint64_t next_event() const { return std::min(next_, ahead_.next(board_.now)); }

private:
    static constexpr unsigned LEVELS_ = word::dma::loops;

    struct Made {
        uint64_t at;                // cycle in which it is checked
        DmaRun run;
    };

    void advance(bool accepted, bool completed, bool completed_error, bool moving, uint32_t moved,
                 bool drained) {
        uint64_t now = board_.now;
        bool valid = queue.valid(now);
        uint32_t head = valid ? queue.front() : 0;
        uint32_t waits = valid ? board_.program[head].waits : 0;
        uint32_t missing = board_.missing(unit_, waits);
        bool makes = walking_ && level_ != board_.p.ahead, ends = makes && left_ == 1;
        bool arming = valid && !armed_ && !missing && held_.size() != board_.p.in_flight
                      && !(board_.halt || failed_);
        bool take = armed_ && !(setup_ || failed_) && (!walking_ || ends);
        bool checks = !made_.empty() && made_.front().at == now;
        bool outside = checks && !dropping_ && !inside(made_.front().run);
        bool illegal = setup_ && !word_->size;
        bool there = complete_.valid(now), bad = there && complete_.front();
        bool signalled = there && !bad && board_.fits(unit_, board_.program[held_.front()].signals);
        bool leaves = bad || signalled, waiting = there && !leaves;
        bool walks = !dropping_ && (walking_ || level_);
        bool still = drained && !(setup_ || ahead_.level(now) || walks);
        bool starved = valid && missing;

        seen.idle = still && !armed_ && !complete_.level(now) && (held_.empty() || failed_);
        seen.blocked = still && !armed_ && (waiting || (starved && held_.empty()));
        seen.blocked_index = waiting ? held_.front() : head;
        if (bad) board_.fail(status::bus, unit_, held_.front());
        else if (outside) board_.fail(status::address, unit_, made_.front().run.index);
        else if (illegal) board_.fail(status::illegal, unit_, index_);

        if (moving) board_.does(unit_, activity::busy, moved);
        else if (take || arming) board_.does(unit_, activity::busy, head);
        else if (setup_) board_.does(unit_, activity::busy, index_);
        else if (waiting && still) board_.does(unit_, activity::signal, held_.front());
        else if (!held_.empty()) board_.does(unit_, activity::memory, held_.front());
        else if (armed_) board_.does(unit_, activity::memory, head);
        else if (starved) board_.does(unit_, activity::token_of(missing), head);
        else board_.does(unit_, activity::command, -1);

        if (leaves) {
            if (signalled) {
                board_.retired(now, held_.front());
                board_.give(unit_, board_.program[held_.front()].signals);
            }
            held_.pop();
            complete_.pop(now);
        }
        if (completed) complete_.push(now, completed_error);
        if (accepted) ahead_.pop(now);
        if (checks) {
            if (!outside && !dropping_) ahead_.push(now, made_.front().run);
            made_.pop();
        }
        level_ += makes;
        level_ -= accepted;
        if (makes) made_.push({now + board_.p.nest + 1, made()});
        bool goes_on = take || arming || leaves || setup_;
        if (setup_) enter();
        else if (makes) walk();
        armed_ = (armed_ ? !take : arming) && !failed_;
        failed_ |= outside || illegal || bad;
        dropping_ |= outside;
        if (take) {
            board_.take(unit_, waits);
            queue.pop(now);
            board_.wake_next(unit::fetch);
            board_.started(now + 1, head);
            held_.push(head);
            index_ = head;
            word_ = &board_.program[head];
        }
        setup_ = take;
        goes_on |= failed_ || (walking_ && level_ != board_.p.ahead);
        next_ = goes_on ? now + 1 : std::min(queue.next(now), complete_.next(now));
        if (!made_.empty()) next_ = std::min(next_, made_.front().at);
    }

    bool inside(const DmaRun &run) const {
        return uint64_t(run.address) + run.run < board_.program[run.index].size;
    }

    // The iteration that is made.
    DmaRun made() const {
        return {dram_[LEVELS_ - 1], address_[LEVELS_ - 1], loops_->run, loops_index_, pads(),
                left_ == 1};
    }

    bool pads() const {
        if (!loops_->pads) return false;
        for (unsigned level = 0; level < LEVELS_; level++) {
            const Loop &loop = loops_->loops[level];
            if (at_[level] < loop.before || at_[level] + loop.after >= loop.extent) return true;
        }
        return false;
    }

    // The instruction that is set up enters the loops.
    void enter() {
        walking_ = word_->size;
        loops_ = word_;
        loops_index_ = index_;
        left_ = word_->count();
        std::fill(dram_, dram_ + LEVELS_, word_->base[0]);
        std::fill(address_, address_ + LEVELS_, word_->base[1]);
        std::fill(at_, at_ + LEVELS_, 0);
    }

    // To the next iteration.
    void walk() {
        if (!--left_) {
            walking_ = false;
            return;
        }
        unsigned level = LEVELS_ - 1;
        while (at_[level] + 1 == loops_->loops[level].extent) at_[level--] = 0;
        const Loop &loop = loops_->loops[level];
        at_[level]++;
        uint32_t dram = dram_[level] + loop.stride[0];
        uint32_t address = (address_[level] + loop.stride[1]) & 0xFFFFFF;
        for (; level < LEVELS_; level++) {
            dram_[level] = dram;
            address_[level] = address;
        }
    }

    Board &board_;
    const unsigned unit_;
    const Instruction *word_ = nullptr, *loops_ = nullptr;  // taken last; in the loops
    uint32_t index_ = 0, loops_index_ = 0;
    bool armed_ = false, setup_ = false, walking_ = false, failed_ = false;
    bool dropping_ = false;                     // a run was outside its buffer
    bool moving_ = false, drained_ = true;      // in the cycle before
    uint64_t next_ = 0;                         // nothing changes by itself before
    uint64_t left_ = 0;                         // iterations to make
    uint32_t level_ = 0;                        // iterations that are made and not accepted
    Fifo<Made> made_;                           // that are not checked
    Registered<DmaRun> ahead_;
    uint32_t at_[LEVELS_] = {}, dram_[LEVELS_] = {}, address_[LEVELS_] = {};
    Fifo<uint32_t> held_;           // instructions that are started and not retired
    Registered<uint8_t> complete_;  // of those, from the oldest on: is it an error
};

// `Stepper`: a run as steps that take a beat and write a chunk.
class Stepper {
public:
    bool busy = false;
    uint32_t chunk = 0, index = 0;
    bool last = false;              // the run is the last of its instruction

    bool takes() const { return beats_ != 0; }
    bool writes() const { return !skip_; }
    bool ends() const { return !skip_ && !chunks_; }

    void accept(const DmaRun &run, uint32_t source, uint32_t target, bool fill,
                uint32_t bus_bits) {
        uint32_t within = (1u << bus_bits) - 1, from = source & within, to = target & within;
        uint32_t beats = (from + run.run) >> bus_bits;
        busy = true;
        skip_ = to < from && !fill && beats;
        beats_ = fill ? 0 : beats + 1;
        chunks_ = (to + run.run) >> bus_bits;
        chunk = target >> bus_bits;
        index = run.index;
        last = run.last;
    }

    // Steps to come that take a beat, without the last of the run; and what it is to do some.
    uint32_t taking() const { return busy ? std::min(beats_, chunks_ + skip_) : 0; }
    void fire(uint32_t steps) {
        uint32_t written = steps - (steps && skip_);
        beats_ -= steps;
        chunks_ -= written;
        chunk += written;
        skip_ = skip_ && !steps;
    }

    void fire() {
        busy = !ends();
        beats_ -= takes();
        if (writes()) {
            chunks_--;
            chunk++;
        }
        skip_ = false;
    }

private:
    uint32_t beats_ = 0, chunks_ = 0;       // beats to take; chunks to write, minus one
    bool skip_ = false;
};

class Load {
public:
    explicit Load(Board &board) : front(board, unit::load), board_(board) {}

    Front front;

    // ---- what the memory side looks at and does ------------------------------------------------

    bool requests() const { return requests_.valid(board_.now); }
    const Request &request() const { return requests_.front(); }
    void grant() {
        requests_.pop(board_.now);
        if (busy_) board_.go_on(unit::load);
    }
    bool takes_beat() const { return beats_.ready(board_.now); }
    void beat(bool error) {
        beats_.push(board_.now, error);
        board_.go_on(unit::load);
    }

    void step() {
        uint64_t now = board_.now;
        bool streams = now < stream_end_;
        if (!streams) follow(now);
        bool room = runs_.level(now) != board_.p.bursts, relays = requests_.ready(now);
        bool requested = busy_ && !run_.pad && (!fresh_ || room) && relays;
        bool handed = busy_ && fresh_ && (run_.pad || relays) && room;
        bool done = run_.pad ? handed : requested && end_ < block_bytes();
        bool accepted = front.has_run() && (!busy_ || done);
        bool fire = streams || (stepper_.busy && (!stepper_.takes() || beats_.valid(now)));
        bool drained = !(busy_ || runs_.level(now) || stepper_.busy || written_ || writing_);
        DmaRun taken = accepted ? front.run() : DmaRun{};

        front.step(accepted, completed_, completed_error_, fire, stepper_.index, drained);
        if (!streams) move(fire);
        cut(requested, handed, done, accepted, taken);
        bool cuts = busy_ && (run_.pad || requests_.size() < 2)
                    && (!fresh_ || runs_.size() != board_.p.bursts);
        bool moves = !streams && (written_ || writing_ || completed_
                                  || (stepper_.busy && (!stepper_.takes() || !beats_.empty())));
        if (cuts || moves) board_.go_on(unit::load);
        uint64_t next = std::min(front.next_event(), runs_.next(now));
        board_.set_timer(unit::load, streams ? std::min(next, stream_end_) : next);
    }

    // ---- cycles in which it takes a beat and the next one comes --------------------------------

    // How many, after this cycle, if beats come.
    uint32_t streaming() const {
        bool steady = written_ && writing_ && !completes_ && !completed_ && beats_.size() == 1
                      && !beats_.front() && board_.now >= stream_end_;
        return steady ? stepper_.taking() : 0;
    }
    void stream(uint32_t cycles) {
        streamed_ = board_.now + 1;
        stream_end_ = streamed_ + cycles;
        board_.wake_at(unit::load, stream_end_);
    }
    // The stream ends before this cycle.
    void interrupt() {
        if (board_.now >= stream_end_) return;
        stream_end_ = board_.now;
        board_.wake_now(unit::load);
    }

private:
    uint32_t block_bytes() const { return 1u << board_.p.block_bits; }

    // What the stream has done.
    void follow(uint64_t now) {
        if (streamed_ < stream_end_) stepper_.fire(uint32_t(stream_end_ - streamed_));
        streamed_ = stream_end_;
    }

    // The data path: steps, and the registers behind them.
    void move(bool fire) {
        uint64_t now = board_.now;
        bool next = runs_.valid(now) && (!stepper_.busy || (fire && stepper_.ends()));
        bool completed = written_ && completes_;
        completed_ = completed;
        completed_error_ = failed_;
        if (completed) failed_ = false;
        writing_ = written_;
        written_ = fire;
        if (fire) {
            completes_ = stepper_.ends() && stepper_.last;
            if (stepper_.takes()) {
                failed_ |= beats_.front();
                if (!beats_.ready(now)) board_.go_on(MEMORY);
                beats_.pop(now);
            }
            stepper_.fire();
        }
        if (next) {
            const DmaRun &run = runs_.front();
            stepper_.accept(run, run.dram, run.address, run.pad, board_.p.bus_bits);
            runs_.pop(now);
        }
    }

    // `Bursts`: cuts runs into requests.
    void cut(bool requested, bool handed, bool done, bool accepted, const DmaRun &taken) {
        if (handed) runs_.push(board_.now, run_);
        if (requested) {
            uint32_t last = std::min(end_, block_bytes() - 1) >> board_.p.bus_bits;
            uint32_t place = block_ * block_bytes() + (beat_ << board_.p.bus_bits);
            requests_.push(board_.now, {place, last - beat_});
            board_.go_on(MEMORY);
            fresh_ = false;
            block_++;
            beat_ = 0;
            end_ -= block_bytes();
        }
        if (done) busy_ = false;
        if (accepted) {
            busy_ = fresh_ = true;
            run_ = taken;
            block_ = taken.dram >> board_.p.block_bits;
            beat_ = (taken.dram & block_bytes() - 1) >> board_.p.bus_bits;
            end_ = (taken.dram & block_bytes() - 1) + taken.run;
        }
    }

    Board &board_;
    DmaRun run_ = {};
    bool busy_ = false, fresh_ = false;
    uint32_t block_ = 0, beat_ = 0, end_ = 0;       // `end_` counts from the begin of the block
    Registered<DmaRun> runs_;                       // requested, of which data is to come
    Relay<Request> requests_;
    Relay<uint8_t> beats_;                          // is it an error
    Stepper stepper_;
    bool written_ = false, completes_ = false;      // the register behind the rotation
    bool writing_ = false, completed_ = false, completed_error_ = false;    // and the one after
    bool failed_ = false;                           // a beat of this instruction was an error
    uint64_t streamed_ = 0, stream_end_ = 0;        // the stepper is as it was in the former
};

class Store {
public:
    explicit Store(Board &board)
        : front(board, unit::store), board_(board), stages_(board.p.store_stages) {}

    Front front;

    // ---- what the memory side looks at and does ------------------------------------------------

    bool requests() const { return bursts_.valid(board_.now); }
    const Request &request() const { return bursts_.front().request; }
    bool has_beat() const { return beats_.valid(board_.now); }
    // When there is the next beat, or request, that is not there yet.
    uint64_t next_offer() const {
        return std::min(beats_.next(board_.now), bursts_.next(board_.now));
    }
    void grant() {
        answers_.push(board_.now, bursts_.front().last);
        bursts_.pop(board_.now);
    }
    void spend() {
        spent_ = true;
        spent_index_ = beats_.front();
        beats_.pop(board_.now);
        board_.wake_now(unit::store);
    }
    void acknowledge(bool error) {
        ack_ = true;
        ack_error_ = error;
        board_.wake_now(unit::store);
    }

    void step() {
        uint64_t now = board_.now;
        bool fire = stepper_.busy && used_ != board_.p.store_depth;
        bool accepted = front.has_run() && (!stepper_.busy || (fire && stepper_.ends()));
        bool final = ack_ && answers_.front();
        bool completed_error = bad_ || ack_error_;
        bool drained = !(stepper_.busy || beats_.level(now) || answers_.level(now) || used_);
        DmaRun taken = accepted ? front.run() : DmaRun{};
        uint32_t moved = fire ? stepper_.index : spent_index_;

        front.step(accepted, final, completed_error, fire || spent_, moved, drained);
        bool moves = spent_ || ack_;
        used_ -= spent_;
        if (ack_) {
            bad_ = !final && completed_error;
            answers_.pop(now);
        }
        moves |= form(fire);
        if (fire) {
            used_ += stepper_.writes();
            stepper_.fire();
        }
        if (accepted)
            stepper_.accept(taken, taken.address, taken.dram, false, board_.p.bus_bits);
        spent_ = ack_ = ack_error_ = false;
        if (moves || (stepper_.busy && used_ != board_.p.store_depth)) board_.go_on(unit::store);
        board_.set_timer(unit::store, front.next_event());
    }

private:
    struct Stage {
        bool writes, end, last;
        uint32_t chunk, index;
    };
    struct Burst {
        Request request;
        bool last;              // of its instruction
    };

    // The pipeline from a step to its beat, and `BurstWriter`. Whether anything is in it.
    bool form(bool fire) {
        Stage &oldest = stages_[place_];
        bool arrives = oldest.writes;
        if (arrives) {
            beats_.push(board_.now, oldest.index);
            uint32_t bits = board_.p.bus_bits, in_block = (1u << board_.p.block_bits - bits) - 1;
            bool ends = oldest.end || !(~oldest.chunk & in_block);
            if (ends)
                bursts_.push(board_.now,
                             {{oldest.chunk - before_ << bits, before_}, oldest.last});
            board_.wake_at(MEMORY, next_offer());
            before_ = ends ? 0 : before_ + 1;
            under_way_--;
        }
        oldest = {};
        if (fire && stepper_.writes()) {
            oldest = {true, stepper_.ends(), stepper_.ends() && stepper_.last, stepper_.chunk,
                      stepper_.index};
            under_way_++;
        }
        if (++place_ == stages_.size()) place_ = 0;
        return arrives || under_way_;
    }

    Board &board_;
    Stepper stepper_;
    std::vector<Stage> stages_;
    uint32_t place_ = 0, under_way_ = 0;
    uint32_t used_ = 0, before_ = 0;
    Registered<uint32_t> beats_;    // the instruction of each
    Registered<Burst> bursts_;
    Registered<uint8_t> answers_;   // of requested bursts: is it the last of its instruction
    bool bad_ = false;
    bool spent_ = false, ack_ = false, ack_error_ = false;      // in this cycle
    uint32_t spent_index_ = 0;
};

}  // namespace lockstep
