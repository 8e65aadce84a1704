// load and store of the cycle simulator; accel/hw/moving/dma.py, load.py and store.py.

#pragma once

#include "cycle_board.h"

namespace lockstep {
namespace {

struct Request {
    uint32_t addr, last;        // beats minus one
    uint32_t index;             // of the instruction
};

// One iteration of a DMA instruction.
struct DmaRun {
    uint32_t dram, address, run, index;
    bool pad, last;
    uint32_t again = 0;         // of load: how many of its beats have been read
};

// `Front`: takes instructions, walks their loops, retires them in order.
class Front {
public:
    Front(Board &board, unsigned unit) : board_(board), unit_(unit) {}

    Commands queue;
    Seen seen;

    bool has_run() const { return ahead_.valid(board_.now); }
    const DmaRun &run() const { return ahead_.front(); }

    // When there is the next run, if that is to come.
    uint64_t next_run() const { return ahead_.next(board_.now); }
    // All bytes of the oldest instruction that is not complete have been moved.
    void complete(uint64_t cycle, bool error) {
        complete_.push(cycle, error);
        next_ = std::min(next_, complete_.next(board_.now));
    }

    // One cycle. `accepted`: its run; `moving`: the data path moves bytes, of instruction `moved`
    // (and is not drained then); `drained` as in dma.py.
    void step(bool accepted, bool moving, uint32_t moved, bool drained) {
        bool same = (moving == moving_) & (drained == drained_);
        bool stands = (board_.now < next_) & !board_.is_poked(unit_) & (same | moving);
        moving_ = moving;
        drained_ = drained;
        if (!stands) {
            advance(moving, moved, drained);
        } else if (moving) {
            seen.idle = seen.blocked = false;
            board_.does(unit_, activity::busy, moved);
        }
        if (!accepted) return;
        ahead_.pop(board_.now);
        level_--;
        if (left_) make();
    }

    // When it is to be evaluated at the latest.
    uint64_t next_event() const { return next_; }

private:
    static constexpr unsigned LEVELS_ = word::dma::loops;

    void advance(bool moving, uint32_t moved, bool drained) {
        uint64_t now = board_.now;
        bool valid = queue.valid(now);
        uint32_t head = valid ? queue.front() : 0;
        uint32_t waits = valid ? board_.program[head].waits : 0;
        uint32_t missing = board_.missing(unit_, waits);
        bool arming = valid && !armed_ && !missing && held_.size() != timing::in_flight
                      && !board_.halt;
        bool take = armed_ && !(setup_ || left_) && made_ <= now;
        bool there = complete_.valid(now), signalled = granted_, waiting = refused_;
        bool asks = there && !signalled;
        bool fits = asks && board_.fits(unit_, board_.program[held_.front()].signals);
        bool still = drained && !setup_ && ahead_.empty();
        bool starved = valid && missing;

        seen.idle = still && !armed_ && complete_.empty() && held_.empty();
        seen.blocked = still && !armed_ && (waiting || (starved && held_.empty()));
        seen.blocked_index = waiting ? held_.front() : head;
        if (there && complete_.front()) board_.fail(status::bus, unit_, held_.front());

        if (moving) board_.does(unit_, activity::busy, moved);
        else if (take || arming) board_.does(unit_, activity::busy, head);
        else if (setup_) board_.does(unit_, activity::busy, index_);
        else if (waiting && still) board_.does(unit_, activity::signal, held_.front());
        else if (!held_.empty()) board_.does(unit_, activity::memory, held_.front());
        else if (armed_) board_.does(unit_, activity::memory, head);
        else if (starved) board_.does(unit_, activity::token_of(missing), head);
        else board_.does(unit_, activity::command, -1);

        if (signalled) {
            board_.retired(now, held_.front());
            board_.give(unit_, board_.program[held_.front()].signals);
            held_.pop();
            complete_.pop(now);
        }
        bool goes_on = take || arming || signalled || setup_ || fits
                       || refused_ != (asks && !fits);
        granted_ = fits;
        refused_ = asks && !fits;
        armed_ = armed_ ? !take : arming;
        next_ = goes_on ? now + 1 : std::min(queue.next(now), complete_.next(now));
        if (armed_ && made_ > now && !left_) next_ = std::min(next_, made_);
        if (setup_) enter();
        if (take) start(head, waits);
        setup_ = take;
    }

    void start(uint32_t head, uint32_t waits) {
        board_.take(unit_, waits);
        queue.pop(board_.now);
        board_.wake_next(unit::fetch);
        board_.started(board_.now + 1, head);
        held_.push(head);
        index_ = head;
        word_ = &board_.program[head];
    }

    // The instruction that is set up enters the loops.
    void enter() {
        if (!word_->size) board_.fail(status::illegal, unit_, index_);
        loops_ = word_;
        loops_index_ = index_;
        left_ = word_->count();
        std::fill(dram_, dram_ + LEVELS_, word_->base[0]);
        std::fill(address_, address_ + LEVELS_, word_->base[1]);
        std::fill(at_, at_ + LEVELS_, 0);
        make();
    }

    // Iterations that are made from the next cycle on, as far as there is room for them; one a
    // cycle.
    void make() {
        for (; left_ && level_ != timing::ahead; level_++) {
            made_ = std::max(made_, board_.now) + 1;
            uint64_t checked = made_ + timing::walk_cycles;
            DmaRun run = {dram_[LEVELS_ - 1], address_[LEVELS_ - 1], loops_->run, loops_index_,
                          pads(), left_ == 1};
            if (outside(run)) board_.fail(status::address, unit_, loops_index_);
            ahead_.push(checked, run);
            if (--left_) walk();
        }
        if (!left_) next_ = std::min(next_, made_);
    }

    bool outside(const DmaRun &run) const {
        return loops_->size && uint64_t(run.address) + run.run >= loops_->size;
    }

    bool pads() const {
        if (!loops_->pads) return false;
        for (unsigned level = 0; level < LEVELS_; level++) {
            const Loop &loop = loops_->loops[level];
            if (at_[level] < loop.before || at_[level] + loop.after >= loop.extent) return true;
        }
        return false;
    }

    // To the next iteration.
    void walk() {
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
    bool armed_ = false, setup_ = false;
    bool granted_ = false, refused_ = false;    // what the oldest asked for in the cycle before
    bool moving_ = false, drained_ = true;      // in the cycle before
    uint64_t next_ = 0;                         // nothing changes by itself before
    uint64_t left_ = 0, made_ = 0;              // iterations to make; when the latest was, or will be
    uint32_t level_ = 0;                        // iterations that are made and not accepted
    Registered<DmaRun> ahead_;                  // of these, those that are handed on
    uint32_t at_[LEVELS_] = {}, dram_[LEVELS_] = {}, address_[LEVELS_] = {};
    Fifo<uint32_t> held_;           // instructions that are started and not retired
    // Of those, from the oldest on: is it an error?
    Registered<uint8_t, timing::queue_cycles, 1> complete_;
};

// `Stepper`: a run as steps that take a beat and write a chunk.
class Stepper {
public:
    bool busy = false;
    uint32_t chunk = 0, index = 0;
    bool last = false;              // the run is the last of its instruction

    bool takes() const { return beats_ && !again_; }
    bool writes() const { return !skip_; }
    bool ends() const { return !(skip_ | chunks_); }

    void accept(const DmaRun &run, uint32_t source, uint32_t target, bool fill,
                uint32_t bus_bits) {
        uint32_t within = (1u << bus_bits) - 1, from = source & within, to = target & within;
        uint32_t beats = (from + run.run) >> bus_bits;
        bool two = to < from && !fill && beats, passed = two && run.again;
        busy = true;
        skip_ = two && !passed;
        beats_ = fill ? 0 : beats + 1 - passed;
        again_ = run.again - passed;
        chunks_ = (to + run.run) >> bus_bits;
        chunk = target >> bus_bits;
        index = run.index;
        last = run.last;
    }

    // Of a run that was just accepted: beats to take, chunks to write.
    uint32_t beats() const { return beats_ > again_ ? beats_ - again_ : 0; }
    uint32_t chunks() const { return chunks_ + 1; }

    // Steps to come that take a beat, without the last of the run; and what it is to do some.
    uint32_t taking() const { return busy && !again_ ? std::min(beats_, chunks_ + skip_) : 0; }
    void fire(uint32_t steps) {
        uint32_t written = steps - (steps && skip_);
        beats_ -= steps;
        chunks_ -= written;
        chunk += written;
        skip_ = skip_ && !steps;
    }

    void fire() {
        busy = !ends();
        beats_ -= beats_ != 0;
        again_ -= again_ != 0;
        if (writes()) {
            chunks_--;
            chunk++;
        }
        skip_ = false;
    }

private:
    uint32_t beats_ = 0, chunks_ = 0;       // beats to read; chunks to write, minus one
    uint32_t again_ = 0;                    // of those beats the first ones, not to take
    bool skip_ = false;
};

// `Overlap`: how many of the first beats of a run are those of the run before.
class Overlap {
public:
    explicit Overlap(const Parameters &p) : bits_(p.bus_bits), kept_(p.kept_beats) {}

    DmaRun step(DmaRun run) {
        uint32_t within = (1u << bits_) - 1, passed = (run.dram >> bits_) - (first_ >> bits_);
        passed &= ~0u >> bits_;
        bool follows = passed || (run.dram & within) >= (first_ & within);
        if (beats_ && !run.pad && passed < beats_ && follows) run.again = beats_ - passed;
        if (!run.pad) {
            uint32_t beats = ((run.dram & within) + run.run >> bits_) + 1;
            first_ = run.dram;
            beats_ = beats > kept_ ? 0 : beats;
        }
        if (run.last) beats_ = 0;
        return run;
    }

private:
    const uint32_t bits_, kept_;
    uint32_t first_ = 0, beats_ = 0;        // of the run before; beats, 0: none to share
};

class Load {
public:
    explicit Load(Board &board)
        : front(board, unit::load), board_(board), overlap_(board.p) {}

    Front front;

    // ---- what the memory side looks at and does ------------------------------------------------

    bool requests() const { return requests_.valid(board_.now); }
    const Request &asked() const { return requests_.front(); }
    uint64_t next_offer() const { return requests_.next(board_.now); }
    void grant() {
        requests_.pop(board_.now);
        if (busy_) board_.go_on(unit::load);
    }
    bool takes_beat() const { return beats_.level(board_.now) != beat_room(); }
    void beat(bool error) {
        beats_.push(board_.now, error);
        errors_ += error;
        board_.go_on(unit::load);
    }

    void step() {
        uint64_t now = board_.now;
        bool streams = now < stream_end_;
        if (!streams && streamed_ < stream_end_) follow();
        bool room = runs_.size() != timing::bursts, relays = requests_.ready(now);
        bool may_hand = busy_ & (!fresh_ | room), requested = may_hand & relays & !quiet_;
        bool handed = may_hand & fresh_ & (quiet_ | relays);
        bool done = (quiet_ & handed) | (requested & (end_ < block_beats()));
        bool accepted = (!busy_ | done) & incoming_.valid(now);
        bool relayed = incoming_.ready(now) & front.has_run();
        bool fire = streams | (stepper_.busy & (!stepper_.takes() | beats_.valid(now)));
        bool drained = !(!incoming_.empty() | busy_ | !runs_.empty() | stepper_.busy
                         | (now < drained_at_));
        uint32_t moved = stepper_.index;

        if (!streams) move(fire);
        if (handed) runs_.push(now, run_);
        if (requested) request();
        if (done) busy_ = false;
        if (accepted) {
            accept(incoming_.front());
            incoming_.pop(now);
        }
        if (relayed) incoming_.push(now, overlap_.step(front.run()));
        front.step(relayed, fire, moved, drained);

        bool cuts = busy_ & (quiet_ | requests_.has_room())
                    & (!fresh_ | (runs_.size() != timing::bursts));
        bool moves = stepper_.busy & (!stepper_.takes() | !beats_.empty());
        uint64_t next = cuts | (!streams & (fire | moves)) ? now + 1 : front.next_event();
        next = std::min({next, runs_.next(now), after(now, drained_at_), after(now, stream_end_)});
        bool takes = incoming_.has_room();
        if ((!incoming_.empty() & !busy_) | (takes & front.has_run())) next = now + 1;
        board_.set_timer(unit::load, takes ? std::min(next, front.next_run()) : next);
    }

    // ---- cycles in which it takes a beat and the next one comes --------------------------------

    // How many, after this cycle, if beats come.
    uint32_t streaming() const {
        bool steady = beats_.size() >= timing::beat_cycles && beats_.size() < beat_room() && !errors_
                      && board_.now >= stream_end_;
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
    // From a step to when nothing of it is left in the data path.
    static constexpr uint64_t PATH_ = timing::chunk_cycles + 1;

    uint32_t block_beats() const { return board_.p.burst_beats; }
    uint32_t beat_room() const { return timing::beats - board_.p.kept_beats; }

    // What the stream has done.
    void follow() {
        stepper_.fire(uint32_t(stream_end_ - streamed_));
        streamed_ = stream_end_;
        drained_at_ = stream_end_ - 1 + PATH_;
    }

    // The data path: steps, and the registers behind them.
    void move(bool fire) {
        uint64_t now = board_.now;
        bool next = runs_.valid(now) & (!stepper_.busy | (fire & stepper_.ends()));
        if (fire) {
            drained_at_ = now + PATH_;
            if (stepper_.takes()) {
                failed_ |= beats_.front();
                errors_ -= beats_.front();
                if (!takes_beat()) board_.go_on(MEMORY);
                beats_.pop(now);
            }
            if (stepper_.ends() && stepper_.last) {
                front.complete(now + PATH_ - 1, failed_);
                failed_ = false;
            }
            stepper_.fire();
        }
        if (next) {
            const DmaRun &run = runs_.front();
            stepper_.accept(run, run.dram, run.address, run.pad, board_.p.bus_bits);
            board_.count(run.index, access::beats, stepper_.beats());
            board_.count(run.index, access::chunks, stepper_.chunks());
            runs_.pop(now);
        }
    }

    // ---- `Bursts`: cuts runs into requests ---------------------------------------------------

    void request() {
        uint32_t last = std::min(end_, block_beats() - 1);
        requests_.push(board_.now, {block_ * block_beats() + beat_ << board_.p.bus_bits,
                                    last - beat_, run_.index});
        board_.go_on(MEMORY);
        fresh_ = false;
        block_++;
        beat_ = 0;
        end_ -= block_beats();
    }

    void accept(const DmaRun &run) {
        uint32_t bits = board_.p.bus_bits, first = run.dram >> bits, from = first + run.again;
        uint32_t last = first + ((run.dram & (1u << bits) - 1) + run.run >> bits);
        busy_ = fresh_ = true;
        run_ = run;
        quiet_ = run.pad | (last < from);
        block_ = from / block_beats();
        beat_ = from % block_beats();
        end_ = last - block_ * block_beats();
    }

    Board &board_;
    DmaRun run_ = {};
    bool busy_ = false, fresh_ = false, quiet_ = false;
    uint32_t block_ = 0, beat_ = 0, end_ = 0;       // beats, from the begin of the block
    Overlap overlap_;
    Relay<DmaRun> incoming_;
    Registered<DmaRun> runs_;                       // requested, of which data is to come
    Relay<Request> requests_;
    Registered<uint8_t, timing::beat_cycles> beats_;        // is it an error
    uint32_t errors_ = 0;                           // of these
    Stepper stepper_;
    uint64_t drained_at_ = 0;                       // after the latest step
    bool failed_ = false;                           // a beat of this instruction was an error
    uint64_t streamed_ = 0, stream_end_ = 0;        // the stepper is as it was in the former
};

class Store {
public:
    explicit Store(Board &board) : front(board, unit::store), board_(board) {}

    Front front;

    // ---- what the memory side looks at and does ------------------------------------------------

    bool requests() const { return bursts_.valid(board_.now); }
    const Request &asked() const { return bursts_.front().request; }
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
        bool accepted = (!stepper_.busy || (fire && stepper_.ends())) && front.has_run();
        bool drained = !(stepper_.busy || used_ || !answers_.empty());
        bool moving = fire || spent_, goes_on = moving || ack_;
        uint32_t moved = fire ? stepper_.index : spent_index_;

        used_ -= spent_;
        if (ack_) answered();
        if (fire) {
            if (stepper_.writes()) form();
            stepper_.fire();
        }
        if (accepted) {
            const DmaRun &run = front.run();
            stepper_.accept(run, run.address, run.dram, false, board_.p.bus_bits);
            board_.count(run.index, access::beats, stepper_.chunks());
            board_.count(run.index, access::chunks, stepper_.beats());
        }
        front.step(accepted, moving, moved, drained);
        spent_ = ack_ = ack_error_ = false;
        if (goes_on || (stepper_.busy && used_ != board_.p.store_depth)) board_.go_on(unit::store);
        uint64_t next = front.next_event();
        board_.set_timer(unit::store, stepper_.busy ? next : std::min(next, front.next_run()));
    }

private:
    struct Burst {
        Request request;
        bool last;              // of its instruction
    };

    void answered() {
        bool final = answers_.front(), error = bad_ || ack_error_;
        if (final) front.complete(board_.now, error);
        bad_ = !final && error;
        answers_.pop(board_.now);
    }

    // A step's beat, which comes some cycles later, and `BurstWriter`.
    void form() {
        uint64_t comes = board_.now + timing::form_cycles;
        uint32_t bits = board_.p.bus_bits, in_block = board_.p.burst_beats - 1;
        uint32_t chunk = stepper_.chunk;
        beats_.push(comes, stepper_.index);
        used_++;
        bool ends = stepper_.ends() || !(~chunk & in_block);
        if (ends)
            bursts_.push(comes, {{chunk - before_ << bits, before_, stepper_.index},
                                 stepper_.ends() && stepper_.last});
        before_ = ends ? 0 : before_ + 1;
        board_.wake_at(MEMORY, next_offer());
    }

    Board &board_;
    Stepper stepper_;
    uint32_t used_ = 0, before_ = 0;
    Registered<uint32_t> beats_;    // the instruction of each
    Registered<Burst> bursts_;
    Registered<uint8_t> answers_;   // of requested bursts: is it the last of its instruction
    bool bad_ = false;
    bool spent_ = false, ack_ = false, ack_error_ = false;      // in this cycle
    uint32_t spent_index_ = 0;
};

}  // namespace
}  // namespace lockstep
