// load and store of the cycle simulator; accel/hw/dma.py, load.py and store.py.

#pragma once

#include "cycle_board.h"

namespace lockstep {

// What the memory side says to its clients in a cycle.
struct Answer {
    bool granted;               // the request was accepted
    bool beat, beat_error;      // a beat was read for this client
    bool spent;                 // a beat was written
    bool ack, ack_error;
};

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

    bool is_changing() const { return changed_; }
    bool has_run() const { return walking_ && inside(); }
    DmaRun run() const {
        return {dram_[LEVELS_ - 1], address_[LEVELS_ - 1], word_->run, index_, pads(), ended(0)};
    }

    // One cycle. `accepted`: its run; `moving`: the data path moves bytes, of instruction `moved`;
    // the others as in dma.py. Whether anything changed.
    bool step(bool accepted, bool completed, bool completed_error, bool moving, uint32_t moved,
              bool drained) {
        if (moving && !changed_ && !accepted && !completed && !board_.is_poked(unit_)) {
            seen.idle = seen.blocked = false;       // the data path works; here is nothing new
            board_.does(unit_, activity::busy, moved);
            return false;
        }
        uint64_t now = board_.now;
        bool valid = !queue.empty();
        uint32_t head = valid ? queue.head() : 0;
        uint32_t waits = valid ? board_.program[head].waits : 0;
        uint32_t missing = board_.missing(unit_, waits);
        bool take = valid && !missing && held_.size() != board_.p.in_flight
                    && !(setup_ || walking_ || board_.halt || failed_);
        bool fault = (setup_ && !word_->size) || (walking_ && !inside());
        bool ends = !complete_.empty(), bad = ends && complete_.front();
        bool signalled = ends && !bad && board_.fits(unit_, board_.program[held_.front()].signals);
        bool leaves = bad || signalled, waiting = ends && !leaves;
        bool still = drained && !(setup_ || walking_);
        bool starved = valid && missing;

        seen.idle = still && !ends && (held_.empty() || failed_);
        seen.blocked = still && !take && (waiting || (starved && held_.empty()));
        seen.blocked_index = waiting ? held_.front() : head;
        if (bad) board_.fail(status::bus, unit_, held_.front());
        else if (fault) board_.fail(setup_ ? status::illegal : status::address, unit_, index_);

        if (moving) board_.does(unit_, activity::busy, moved);
        else if (take) board_.does(unit_, activity::busy, head);
        else if (setup_) board_.does(unit_, activity::busy, index_);
        else if (waiting && still) board_.does(unit_, activity::signal, held_.front());
        else if (!held_.empty()) board_.does(unit_, activity::memory, held_.front());
        else if (starved) board_.does(unit_, activity::token_of(missing), head);
        else board_.does(unit_, activity::command, -1);

        changed_ = take || setup_ || (walking_ && fault) || accepted || leaves || completed;
        failed_ |= fault || bad;
        if (leaves) {
            if (signalled) {
                board_.retired(now, held_.front());
                board_.give(unit_, board_.program[held_.front()].signals);
            }
            held_.pop();
            complete_.pop();
        }
        if (completed) complete_.push(completed_error);
        walk(accepted, fault);
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
        return changed_;
    }

private:
    static constexpr unsigned LEVELS_ = word::dma::loops;

    bool inside() const { return uint64_t(address_[LEVELS_ - 1]) + word_->run < word_->size; }

    bool pads() const {
        if (!word_->pads) return false;
        for (unsigned level = 0; level < LEVELS_; level++) {
            const Loop &loop = word_->loops[level];
            if (at_[level] < loop.before || at_[level] + loop.after >= loop.extent) return true;
        }
        return false;
    }

    // All loops from `level` on are at their last iteration.
    bool ended(unsigned level) const {
        for (; level < LEVELS_; level++)
            if (at_[level] + 1 != word_->loops[level].extent) return false;
        return true;
    }

    void walk(bool accepted, bool fault) {
        if (setup_) {
            walking_ = word_->size;
            std::fill(dram_, dram_ + LEVELS_, word_->base[0]);
            std::fill(address_, address_ + LEVELS_, word_->base[1]);
            std::fill(at_, at_ + LEVELS_, 0);
        } else if (accepted) {
            unsigned level = LEVELS_;
            while (level && at_[level - 1] + 1 == word_->loops[level - 1].extent) level--;
            if (!level) {
                walking_ = false;
                return;
            }
            const Loop &loop = word_->loops[--level];
            uint32_t dram = dram_[level] + loop.stride[0];
            uint32_t address = (address_[level] + loop.stride[1]) & 0xFFFFFF;
            for (at_[level]++;; at_[level] = 0) {
                dram_[level] = dram;
                address_[level] = address;
                if (++level == LEVELS_) break;
            }
        } else if (walking_ && fault) {
            walking_ = false;
        }
    }

    Board &board_;
    const unsigned unit_;
    const Instruction *word_ = nullptr;
    uint32_t index_ = 0;
    bool setup_ = false, walking_ = false, failed_ = false;
    bool changed_ = true;           // by the step before
    uint32_t at_[LEVELS_] = {}, dram_[LEVELS_] = {}, address_[LEVELS_] = {};
    Fifo<uint32_t> held_;           // instructions that are started and not retired
    Fifo<uint8_t> complete_;           // of those, from the oldest on: is it an error
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

    // Steps to come, up to the end of the run, that all take a beat; and what it is to do some.
    uint32_t taking() const { return busy ? std::min(beats_, chunks_ + 1 + skip_) : 0; }
    void fire(uint32_t steps) {
        uint32_t written = steps - skip_;
        busy = written != chunks_ + 1;
        beats_ -= steps;
        chunks_ -= written;
        chunk += written;
        skip_ = false;
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
    Answer answer = {};

    // ---- `Bursts`: cuts runs into requests ---------------------------------------------------

    bool requests() const { return busy_ && !run_.pad && (!fresh_ || has_room()); }
    Request request() const {
        uint32_t last = std::min(end_, block_bytes() - 1) >> board_.p.bus_bits;
        return {block_ * block_bytes() + (beat_ << board_.p.bus_bits), last - beat_};
    }
    bool takes_beat() const { return stepper_.busy && stepper_.takes(); }

    void step() {
        bool only_beat = answer.beat && !answer.granted && !board_.is_poked(unit::load)
                         && !stepper_.ends() && streams();
        if (only_beat && !run_ended_) {
            failed_ |= answer.beat_error;
            stepper_.fire();
            go_on();
            return;
        }
        bool handed = answer.granted ? fresh_ : busy_ && fresh_ && run_.pad && has_room();
        bool done = run_.pad ? handed : answer.granted && end_ < block_bytes();
        bool accepted = front.has_run() && (!busy_ || done);
        bool fire = stepper_.busy && (!stepper_.takes() || answer.beat);
        bool next = !runs_.empty() && (!stepper_.busy || (fire && stepper_.ends()));
        bool completed = written_ && run_ended_ && completes_;
        bool drained = !(busy_ || !runs_.empty() || stepper_.busy || written_);
        DmaRun taken = accepted ? front.run() : DmaRun{};

        bool changed = front.step(accepted, completed, failed_, fire, stepper_.index, drained);
        changed |= handed || answer.granted || fire || next || written_;
        if (completed) failed_ = false;
        written_ = fire;
        if (fire) {
            run_ended_ = stepper_.ends();
            completes_ = stepper_.last;
            failed_ |= stepper_.takes() && answer.beat_error;
            stepper_.fire();
        }
        if (next) next_run();
        cut(handed, done, accepted, taken);
        if (changed) go_on();
        answer = {};
    }

    // ---- cycles in which it takes beats, and nothing else happens ------------------------------

    // Whether there are such: the data path works, and what comes before it stands still.
    bool streams() const {
        return written_ && !(run_ended_ && completes_) && !front.is_changing()
               && (busy_ ? !(run_.pad && has_room()) : !front.has_run());
    }
    // How many, at most; the last run of an instruction, and one that lets requests go on, end
    // otherwise.
    uint32_t streaming() const {
        uint32_t steps = stepper_.taking();
        bool may_end = !stepper_.last && !runs_.empty() && (!busy_ || has_room());
        return may_end || !steps ? steps : steps - 1;
    }
    void stream(uint32_t beats) {
        stepper_.fire(beats);
        run_ended_ = !stepper_.busy;
        completes_ = false;
        if (run_ended_) next_run();
    }

private:
    void go_on() {
        answer = {};
        board_.go_on(unit::load);
        board_.go_on(MEMORY);
    }
    uint32_t block_bytes() const { return 1u << board_.p.block_bits; }
    bool has_room() const { return runs_.size() != board_.p.bursts; }

    void next_run() {
        const DmaRun &run = runs_.front();
        stepper_.accept(run, run.dram, run.address, run.pad, board_.p.bus_bits);
        runs_.pop();
    }

    void cut(bool handed, bool done, bool accepted, const DmaRun &taken) {
        if (handed) runs_.push(run_);
        if (answer.granted) {
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
    Fifo<DmaRun> runs_;                             // requested, of which data is to come
    Stepper stepper_;
    bool written_ = false, run_ended_ = false, completes_ = false;  // behind the rotation
    bool failed_ = false;                           // a beat of this instruction was an error
};

class Store {
public:
    explicit Store(Board &board)
        : front(board, unit::store), board_(board), stages_(board.p.store_stages) {}

    Front front;
    Answer answer = {};

    bool requests() const { return !bursts_.empty(); }
    Request request() const { return bursts_.front().request; }
    bool has_beat() const { return beats_ != 0; }

    void step() {
        bool fire = stepper_.busy && used_ != board_.p.store_depth;
        bool accepted = front.has_run() && (!stepper_.busy || (fire && stepper_.ends()));
        bool final = answer.ack && answers_.front();
        bool completed_error = bad_ || answer.ack_error;
        bool drained = !(stepper_.busy || beats_ || !answers_.empty() || used_);
        DmaRun taken = accepted ? front.run() : DmaRun{};
        uint32_t moved = fire ? stepper_.index : writing_.empty() ? 0 : writing_.front();

        bool changed = front.step(accepted, final, completed_error, fire || answer.spent, moved,
                                  drained);
        changed |= fire || answer.spent || answer.granted || answer.ack;
        if (answer.spent) {
            beats_--;
            used_--;
            writing_.pop();
        }
        if (answer.ack) {
            bad_ = !final && completed_error;
            answers_.pop();
        }
        if (answer.granted) {
            answers_.push(bursts_.front().last);
            bursts_.pop();
        }
        changed |= form(fire);
        if (fire) {
            used_ += stepper_.writes();
            stepper_.fire();
        }
        if (accepted)
            stepper_.accept(taken, taken.address, taken.dram, false, board_.p.bus_bits);
        answer = {};
        if (changed) {
            board_.go_on(unit::store);
            board_.go_on(MEMORY);
        }
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
            beats_++;
            writing_.push(oldest.index);
            uint32_t bits = board_.p.bus_bits, in_block = (1u << board_.p.block_bits - bits) - 1;
            bool ends = oldest.end || !(~oldest.chunk & in_block);
            if (ends) bursts_.push({{oldest.chunk - before_ << bits, before_}, oldest.last});
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
    uint32_t used_ = 0, beats_ = 0, before_ = 0;
    Fifo<uint32_t> writing_;        // the instruction of each beat
    Fifo<Burst> bursts_;
    Fifo<uint8_t> answers_;            // of requested bursts: is it the last of its instruction
    bool bad_ = false;
};

}  // namespace lockstep
