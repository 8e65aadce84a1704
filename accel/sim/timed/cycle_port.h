// The arbiter of a memory port and the memory behind it, cycle for cycle;
// accel/hw/moving/arbiter.py. Its clients are those of the core, or what spreads these over channels.

#pragma once

#include "cycle_dma.h"
#include "cycle_fetch.h"
#include "cycle_shared.h"

namespace lockstep {
namespace {

// The clients of a memory, with the scratchpad in between. Two of them read.
class Clients {
public:
    Clients(Board &board, Fetch &fetch, Load &load, Store &store, uint32_t shared)
        : board_(board), fetch_(fetch), load_(load), store_(store), shared_(board, shared) {}

    static constexpr bool STREAMS = true;       // beats of one burst may be passed over

    // What the scratchpad does in a cycle.
    void begin() {
        shared_.begin();
        shared_.step(load_, store_);
    }

    // The request that a client offers, if any; and that it is granted.
    const Request *asked(unsigned unit) const {
        if (unit == unit::fetch) return fetch_.requests() ? &fetch_.asked() : nullptr;
        if (unit == unit::store) return shared_.requests(store_) ? &store_.asked() : nullptr;
        return shared_.requests(load_) ? &load_.asked() : nullptr;
    }
    void grant(unsigned unit) {
        if (unit == unit::fetch) return fetch_.grant();
        if (unit == unit::store) {
            shared_.granted(store_);
            return store_.grant();
        }
        shared_.granted(load_);
        load_.grant();
    }

    // A beat for one that reads. What it does not take stays offered.
    bool takes(bool to_load) {
        if (!to_load) return true;
        if (!shared_.passes()) board_.go_on(MEMORY);
        return load_.takes_beat() && shared_.passes();
    }
    void beat(bool to_load, bool last, bool error) {
        moved(to_load, 1, board_.now);
        if (to_load) {
            shared_.passed();
            load_.beat(error);
        } else if (last) {
            fetch_.arrive(error);
        }
    }

    bool has_beat() const { return store_.has_beat(); }
    void spend() {
        store_.spend();
        moved(2, 1, board_.now);
    }
    void acknowledge(bool error) {
        store_.acknowledge(error);
        shared_.acknowledged();
    }

    void interrupt() { load_.interrupt(); }
    bool streams(bool to_load) const { return !to_load || shared_.will_pass(); }
    void streamed(bool to_load, uint32_t beats, uint64_t latest) {
        moved(to_load, beats, latest);
        if (to_load) shared_.passed(beats);
    }

    // When they offer what is not there yet.
    uint64_t next_offer() const {
        if (shared_.works(load_, store_)) return board_.now + 1;
        uint64_t next = std::min(store_.next_offer(), shared_.next_offer());
        // Who asks wakes this part in the next cycle.
        if (timing::relay_cycles > 1)
            next = std::min({next, fetch_.next_offer(), load_.next_offer()});
        return next;
    }

    // Moved, of fetch, load and store, as far as counters show it.
    uint64_t beats(unsigned client) const { return beats_[client]; }

private:
    void moved(unsigned client, uint32_t beats, uint64_t latest) {
        uint64_t counted = board_.max_cycles + 1;           // cycles, and the counters' delay
        uint64_t late = latest + timing::counter_cycles + 1;
        beats_[client] += beats - std::min<uint64_t>(beats, late - std::min(late, counted));
    }

    Board &board_;
    Fetch &fetch_;
    Load &load_;
    Store &store_;
    Shared shared_;
    uint64_t beats_[3] = {};
};

template <typename Clients> class Port {
public:
    Port(Board &board, const Dram &dram, const Clients &clients)
        : clients(clients), board_(board), dram_(dram) {}

    Clients clients;

    // Bursts that are under way at the begin of this cycle; one is for some cycles after its last.
    uint32_t open() const {
        uint64_t now = board_.now;
        uint32_t closed = 0;
        for (const Closed &one : closed_) closed += one.bursts * uint32_t(one.cycle + timing::closing_cycles > now);
        return open_ + closed - (granted_ == now);
    }
    // Whether there are, if that is plain.
    bool works() const { return open_ > 1; }

    void step() {
        uint64_t now = board_.now;
        bool full = open() == timing::bursts, data = clients.has_beat() & (due_ != 0);
        if (data) clients.interrupt();
        if (streamed_ < stream_end_ && (data || now >= stream_end_)) follow(now);
        DramOffer offer = dram_.offer(now, data);
        DramTaken taken = {};
        if (now >= stream_end_) read(offer, taken);
        if (offer.ack_valid) {
            clients.acknowledge(offer.ack_error);
            close();
        }
        taken.request = request_there_ && offer.request_ready;
        taken.addr = request_.addr;
        taken.beats = request_.last + 1;
        taken.write = write_;
        taken.owner = request_.index;
        taken.wdata = data && offer.wdata_ready;
        if (taken.wdata) {
            clients.spend();
            due_--;
        }
        if (taken.request && write_) {
            due_ += taken.beats;
            board_.go_on(MEMORY);
        }
        bool free = (!request_there_ || offer.request_ready) && !full;
        if (offer.request_ready) request_there_ = false;
        if (free) grant();
        dram_.edge(now, taken);
        if (uint32_t beats = streaming(false)) stream(beats);
    }

    // When it is to be evaluated at the latest, its clients aside.
    uint64_t next_event() const {
        uint64_t now = board_.now;
        uint64_t next = std::min({dram_.next_offer(now, request_there_), owners_.next(now),
                                  after(now, stream_end_)});
        // How many are open matters when it is none, or when there may be no room for more.
        if (!open_ || open_ + timing::closing_cycles * CLOSING >= timing::bursts)
            for (const Closed &one : closed_)
                if (one.bursts) next = std::min(next, after(now, one.cycle + timing::closing_cycles));
        return next;
    }

    // ---- cycles in which a beat of one burst is read, and none is written ----------------------

    // How many, after this cycle, if the client takes them; the last one of the burst does not
    // count.
    uint32_t streaming(bool to_load) const {
        uint64_t next = board_.now + 1;
        if (!Clients::STREAMS || next <= stream_end_ || !owners_.valid(next)
            || owners_.front().load != to_load || !clients.streams(to_load)
            || (clients.has_beat() && due_))
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
            clients.streamed(owners_.front().load, beats, streamed_ + beats - 1);
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

    // A beat for the owner of the oldest burst.
    void read(const DramOffer &offer, DramTaken &taken) {
        if (!offer.read_valid || !owners_.valid(board_.now)) return;
        Owner owner = owners_.front();
        taken.read = clients.takes(owner.load);
        if (!taken.read) return;
        bool last = ++beat_ == owner.beats;
        clients.beat(owner.load, last, offer.read_error);
        if (last) {
            beat_ = 0;
            owners_.pop(board_.now);
            close();
        }
    }

    // The request of the first client that has one.
    void grant() {
        for (unsigned unit : {unit::fetch, unit::store, unit::load})
            if (const Request *request = clients.asked(unit)) return enter(*request, unit);
    }

    void enter(const Request &request, unsigned unit) {
        request_ = request;
        request_there_ = true;
        write_ = unit == unit::store;
        if (!write_) owners_.push(board_.now, {unit == unit::load, request_.last + 1});
        clients.grant(unit);
        granted_ = board_.now;
        open_++;
        board_.go_on(MEMORY);
    }

    Board &board_;
    Dram dram_;
    Request request_ = {};
    bool request_there_ = false, write_ = false;
    uint32_t open_ = 0;                     // bursts, after this cycle
    uint64_t granted_ = NEVER;              // when the latest was
    Closed closed_[timing::closing_cycles] = {};    // the latest
    uint32_t due_ = 0;                      // beats of accepted write requests
    uint32_t beat_ = 0;                     // of the oldest burst that is read
    Registered<Owner> owners_;
    uint64_t streamed_ = 0, stream_end_ = 0;        // all above is as it was in the former
};

}  // namespace
}  // namespace lockstep
