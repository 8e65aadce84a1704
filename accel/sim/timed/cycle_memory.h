// The memory ports of a core, one or several, cycle for cycle; accel/hw/moving/channels.py.

#pragma once

#include <memory>

#include "cycle_port.h"

namespace lockstep {
namespace {

// What spreads the bursts of the clients over channels.
class Spread {
public:
    Spread(Board &board, const Clients &clients, uint32_t channels)
        : clients(clients), board_(board), acks_(channels),
          beats_{Lanes(channels), Lanes(channels), Lanes(channels)} {}

    Clients clients;

    // What reaches the clients in a cycle, and leaves them.
    void step() {
        clients.begin();
        for (bool to_load : {false, true}) read(to_load);
        write();
        answer();
    }
    // Whether something waits for its turn.
    bool works() const { return waiting_; }

    // ---- what the arbiter of a channel sees ----------------------------------------------------

    const Request *asked(uint32_t channel, unsigned unit) const {
        if (orders_[client_of(unit)].level(board_.now) == timing::bursts) return nullptr;
        const Request *request = clients.asked(unit);
        return request && channel_of(request->addr) == channel ? request : nullptr;
    }
    void grant(uint32_t channel, unsigned unit) {
        uint32_t last = clients.asked(unit)->last;
        orders_[client_of(unit)].push(board_.now, {channel, last});
        if (unit == unit::store) writes_.push(board_.now, {channel, last});
        clients.grant(unit);
    }
    bool takes(uint32_t channel, unsigned client) const {
        return beats_[client][channel].level(board_.now) != board_.p.channel_beats;
    }
    void beat(uint32_t channel, unsigned client, bool error) {
        beats_[client][channel].push(board_.now, error);
        waiting_++;
    }
    bool has_beat(uint32_t channel) const { return beats_[STORE][channel].valid(board_.now); }
    void spend(uint32_t channel) {
        beats_[STORE][channel].pop(board_.now);
        waiting_--;
    }
    void acknowledge(uint32_t channel, bool error) {
        acks_[channel].push(board_.now, error);
        waiting_++;
    }

private:
    static constexpr unsigned STORE = 2;    // the client behind fetch and load

    struct Route {
        uint32_t channel, last;         // beats, minus one
    };
    using Order = Registered<Route, 1>;
    using Lanes = std::vector<Registered<uint8_t, 1>>;      // by channel: is it an error

    uint32_t channel_of(uint32_t addr) const {
        return addr / board_.p.block_bytes % uint32_t(acks_.size());
    }
    static unsigned client_of(unsigned unit) {
        return unit == unit::store ? STORE : unit == unit::load;
    }

    // A beat of the oldest burst has moved; whether it was its last.
    bool count(Order &order, uint32_t &beat) {
        bool last = beat == order.front().last;
        beat = last ? 0 : beat + 1;
        if (last) order.pop(board_.now);
        return last;
    }

    void read(bool to_load) {
        Order &order = orders_[to_load];
        if (!order.valid(board_.now)) return;
        auto &beats = beats_[to_load][order.front().channel];
        if (!beats.valid(board_.now) || !clients.takes(to_load)) return;
        bool error = beats.front();
        beats.pop(board_.now);
        waiting_--;
        clients.beat(to_load, count(order, read_[to_load]), error);
    }

    void write() {
        if (!clients.has_beat() || !writes_.valid(board_.now)) return;
        uint32_t channel = writes_.front().channel;
        if (!takes(channel, STORE)) return;
        clients.spend();
        beat(channel, STORE, false);
        count(writes_, written_);
    }

    void answer() {
        Order &order = orders_[STORE];
        if (!order.valid(board_.now)) return;
        auto &acks = acks_[order.front().channel];
        if (!acks.valid(board_.now)) return;
        clients.acknowledge(acks.front());
        acks.pop(board_.now);
        order.pop(board_.now);
        waiting_--;
    }

    Board &board_;
    Order orders_[3], writes_;              // of clients, what is to be answered; beats to come
    Lanes acks_, beats_[3];                 // that are on their way between client and channel
    uint32_t read_[2] = {}, written_ = 0;   // beats of the oldest bursts
    uint32_t waiting_ = 0;                  // of all these
};

// The clients as the arbiter of a channel sees them.
struct Lane {
    static constexpr bool STREAMS = false;

    const Request *asked(unsigned unit) const { return spread->asked(channel, unit); }
    void grant(unsigned unit) { spread->grant(channel, unit); }
    bool takes(bool to_load) const { return spread->takes(channel, to_load); }
    void beat(bool to_load, bool, bool error) { spread->beat(channel, to_load, error); }
    bool has_beat() const { return spread->has_beat(channel); }
    void spend() { spread->spend(channel); }
    void acknowledge(bool error) { spread->acknowledge(channel, error); }
    void interrupt() {}
    bool streams(bool) const { return false; }
    void streamed(bool, uint32_t, uint64_t) {}

    Spread *spread;
    uint32_t channel;
};

// All of it: one port, which is the faster simulated, or several with a spread before them.
class Memory {
public:
    Memory(Board &board, const Clients &clients, const std::vector<Dram> &channels)
        : board_(board), port_(board, channels[0], clients),
          spread_(board, clients, uint32_t(channels.size())) {
        for (uint32_t channel = 0; channels.size() > 1 && channel < channels.size(); channel++)
            ports_.emplace_back(board, channels[channel], Lane{&spread_, channel});
    }
    Memory(const Memory &) = delete;

    // Bursts that are under way at the begin of this cycle.
    uint32_t open() const {
        uint32_t open = port_.open();
        for (const auto &port : ports_) open += port.open();
        return open;
    }
    // Whether there are, if that is plain.
    bool works() const {
        return port_.works() || std::any_of(ports_.begin(), ports_.end(),
                                            [](const auto &port) { return port.works(); });
    }
    // Moved, of fetch, load and store, as far as counters show it.
    uint64_t beats(unsigned client) const {
        return (ports_.empty() ? port_.clients : spread_.clients).beats(client);
    }

    void step() {
        if (!ports_.empty()) return step_channels();
        port_.clients.begin();
        port_.step();
        board_.set_timer(MEMORY, std::min(port_.next_event(), port_.clients.next_offer()));
    }

    // Cycles in which load takes a beat, for which the port is passed over.
    uint32_t streaming() const { return ports_.empty() ? port_.streaming(true) : 0; }
    void stream(uint32_t cycles) { port_.stream(cycles); }
    void follow(uint64_t cycle) { port_.follow(cycle); }

private:
    void step_channels() {
        spread_.step();
        uint64_t next = NEVER;
        for (auto &port : ports_) port.step();
        for (const auto &port : ports_) next = std::min(next, port.next_event());
        next = spread_.works() ? board_.now + 1 : std::min(next, spread_.clients.next_offer());
        board_.set_timer(MEMORY, next);
    }

    Board &board_;
    Port<Clients> port_;
    Spread spread_;
    std::vector<Port<Lane>> ports_;         // none if there is one channel
};

}  // namespace
}  // namespace lockstep
