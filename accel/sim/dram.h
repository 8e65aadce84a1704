// The memory behind the core's memory port; docs/machine.md, "Memory port", says what it does.
//
// One model for every simulator: nothing here knows who drives it. Time is counted in cycles by
// the driver, which in every cycle calls offer() once and then edge() once:
//
//     offer(now, wdata_valid)   what the memory offers in this cycle, from its state and from
//                               whether write data is there (which must not depend on the offer)
//     edge(now, taken)          which handshakes took place
//
// The bus carries one beat a cycle, read or written. Where both wait for it they take turns, beat
// by beat. A read beat that was offered holds the bus until it is taken. A rate below a beat a cycle
// spreads the beats; what a whole number of cycles is too much of counts for the next beat.
//
// With rows, each bank has one row open. A request of another row first keeps its bank busy for
// `row_miss` cycles, or for `row_closed` if no row is open; requests of one bank follow each other.
//
// In order, requests are performed one after another on a bus of the memory's own, reads and writes
// in the order of acceptance, and what is read reaches the port `latency` cycles after that. A
// request is outstanding until its last beat has had its time on that bus; a write is then
// acknowledged.
//
// Every `refresh_interval` cycles all rows close, and no beat begins for `refresh_cycles`.
//
// There may be several channels, each a memory with a bus and rows of its own. They share the bytes:
// the driver hands a request to the channel that has its block of addresses.
//
// With a seed, random gaps (a function of the seed and of the running number of the request, beat
// or acknowledgement) hold back requests, beats and acknowledgements.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace lockstep {

// Fields as in accel/sim/dram.py.
struct DramTiming {
    uint32_t bus_bytes;
    uint32_t latency;       // cycles
    uint32_t outstanding;   // bursts in flight
    uint64_t seed;          // of random stalls; 0: none
    uint64_t rate;          // of the bus: bytes a cycle, times RATE_ONE; 0: bus_bytes
    uint32_t row_bytes;     // 0: no rows
    uint32_t row_miss;      // cycles
    uint32_t banks;
    uint32_t origin;        // address of the first byte
    uint32_t row_closed;    // cycles
    uint32_t in_order;      // requests are performed one after another
    uint32_t beat_cycles;   // in order: from a beat to the next, but within a read
    uint32_t refresh_interval;      // cycles; 0: no refresh
    uint32_t refresh_cycles;
    uint32_t channels;      // memories, which have blocks of addresses in turn
    uint32_t block_bytes;
};

constexpr uint32_t MOST_BUS_BYTES = 512;       // as in accel/machine/config.py
constexpr uint64_t RATE_ONE = 1 << 16;
constexpr uint64_t NEVER = ~uint64_t(0);

// A cycle that is to come; NEVER if it is over. (Without a branch: nobody could foretell it.)
inline uint64_t after(uint64_t now, uint64_t cycle) { return cycle | -uint64_t(cycle <= now); }

struct DramOffer {
    bool request_ready, wdata_ready, read_valid, read_error, ack_valid, ack_error;
    const uint8_t *read_data;       // bus_bytes bytes; null for an error, and without memory
};

struct DramTaken {
    bool request, wdata, read;      // handshakes of this cycle
    uint32_t addr, beats;           // of the request
    bool write;
    const uint8_t *data;            // of wdata: bus_bytes bytes
    uint64_t mask[MOST_BUS_BYTES / 64];     // bit i: byte i is written
    uint32_t owner = 0;             // whom rows that the request opens are counted for
};

// A first-in first-out queue that grows.
template <typename T> class Fifo {
public:
    bool empty() const { return head_ == tail_; }
    uint32_t size() const { return tail_ - head_; }
    T &front() { return items_[head_ & mask_]; }
    const T &front() const { return items_[head_ & mask_]; }
    const T &back() const { return items_[tail_ - 1 & mask_]; }
    void pop() { head_++; }
    void push(const T &item) {
        if (size() > mask_) grow();
        items_[tail_++ & mask_] = item;
    }

private:
    void grow() {
        std::vector<T> larger(2 * items_.size());
        for (uint32_t i = 0; i < size(); i++) larger[i] = items_[head_ + i & mask_];
        tail_ = size();
        head_ = 0;
        items_.swap(larger);
        mask_ = uint32_t(items_.size()) - 1;
    }

    std::vector<T> items_ = std::vector<T>(16);
    uint32_t mask_ = 15, head_ = 0, tail_ = 0;
};

class Dram {
public:
    // Without `memory` it has the time of one of `size` bytes; what is written must have no mask.
    // `opened`: counts of opened rows by owner, `pitch` apart.
    Dram(uint8_t *memory, uint64_t size, const DramTiming &timing, int64_t *opened = nullptr,
         uint32_t pitch = 0)
        : opened_(opened), pitch_(pitch), memory_(memory), size_(size), timing_(timing), rows_(timing.row_bytes ? timing.banks : 0),
          credit_(beat_cost()),
          refresh_(timing.refresh_interval ? timing.refresh_interval : NEVER) {}

    DramOffer offer(uint64_t now, bool wdata_valid) {
        DramOffer result = {};
        if (refresh_ <= now) refresh_offers(now);
        while (!ends_.empty() && ends_.front() <= now) ends_.pop();
        result.request_ready = outstanding() < timing_.outstanding && now >= request_free_;
        bool there = now >= std::max(port_free_, due(reads_)), room = now >= due(writes_);
        if (timing_.in_order) {
            held_ = there;
            result.wdata_ready = room;
        } else {
            bool bus = held_ | now >= bus_free_;
            held_ = bus & there & (held_ | written_ | !(wdata_valid & room));
            result.wdata_ready = bus & room & !held_;
        }
        if (held_) {
            const Burst &burst = reads_.front();
            result.read_valid = true;
            result.read_error = burst.error;
            result.read_data = burst.error || !memory_ ? nullptr : memory_ + burst.addr;
        }
        result.ack_valid = acking_ = now >= due(acks_);
        result.ack_error = acking_ && acks_.front().error;
        return result;
    }

    void edge(uint64_t now, const DramTaken &taken) {
        if (acking_) acks_.pop();
        if (taken.read) {
            held_ = written_ = false;
            if (timing_.in_order) {
                reads_.pop();
                port_free_ = now + 1;
            } else {
                advance(reads_, now);
            }
        }
        if (taken.wdata) {
            written_ = true;
            Burst &burst = writes_.front();
            if (!burst.error) write(burst.addr, taken.data, taken.mask);
            bool last = burst.beats == 1, error = burst.error;
            advance(writes_, now);
            if (timing_.in_order) go_on_writing(last, error);
            else if (last) acknowledge(now + timing_.latency + 1, error);
        }
        if (taken.request) accept(now, taken);
    }

    // Bursts that were accepted and not completed; in order, beats that were read and not taken.
    uint32_t in_flight() const {
        return reads_.size() + writes_.size() + acks_.size() + waiting_.size();
    }

    // The first cycle after `now` that may offer what is not offered in `now`, if nothing is taken
    // and write data neither comes nor goes meanwhile; of requests, if one waits.
    uint64_t next_offer(uint64_t now, bool request) const {
        uint64_t free = timing_.in_order ? port_free_ : bus_free_;
        uint64_t read = std::max(free, due(reads_)), write = std::max(free, due(writes_));
        uint64_t room = outstanding() < timing_.outstanding || ends_.empty() ? 0 : ends_.front();
        uint64_t next = request ? after(now, std::max(request_free_, room)) : NEVER;
        return std::min({next, after(now, due(acks_)), after(now, read), after(now, write)});
    }

    // Beats of the oldest read that are offered in the cycles from `now` on, one in each, if they
    // are taken and no write data is there; and what it was to take some of them. Other handshakes
    // may come in between.
    uint32_t steady_reads(uint64_t now) const {
        if (timing_.seed || timing_.rate || timing_.in_order || reads_.empty() || bus_free_ > now
            || refresh_ <= now)
            return 0;
        const Burst &burst = reads_.front();
        return burst.due > now || burst.error ? 0 : std::min<uint64_t>(burst.beats, refresh_ - now);
    }
    void took_reads(uint64_t now, uint32_t beats) {
        Burst &burst = reads_.front();
        burst.addr += uint64_t(beats) * timing_.bus_bytes;
        burst.beats -= beats;
        if (!burst.beats) reads_.pop();
        beats_ += beats;
        bus_free_ = now + beats;
        held_ = written_ = false;
    }

    // Whether a request broke the rules of the port: alignment, length, the 64-byte boundary.
    bool violated() const { return violated_; }

private:
    struct Burst {
        uint64_t due;       // earliest cycle of the next beat
        uint64_t addr;
        uint32_t beats;     // that are left
        bool error;
        uint32_t owner;
    };
    struct Waiting {
        Burst burst;
        bool write;
    };
    struct Ack {
        uint64_t due;
        bool error;
    };
    struct Row {
        uint64_t number = NEVER;    // that is open, if any
        uint64_t free = 0;          // when the bank is
    };

    template <typename T> static uint64_t due(const Fifo<T> &items) {
        return items.front().due | -uint64_t(items.empty());
    }

    void accept(uint64_t now, const DramTaken &taken) {
        uint64_t bytes = uint64_t(taken.beats) * timing_.bus_bytes;
        uint32_t block = std::max<uint32_t>(64, timing_.bus_bytes);
        violated_ |= taken.addr & timing_.bus_bytes - 1 || taken.addr % block + bytes > block;
        uint32_t addr = taken.addr - timing_.origin;
        bool error = addr + bytes > size_;
        request_free_ = now + 1 + gap(1, requests_++);
        if (timing_.in_order) {
            waiting_.push({{now + 1, addr, taken.beats, error, taken.owner}, taken.write});
            perform();
            return;
        }
        uint64_t row = open_row(now + 1, addr, taken.owner);
        uint64_t due = row + (taken.write ? 0 : timing_.latency);
        (taken.write ? writes_ : reads_).push({due, addr, taken.beats, error, taken.owner});
    }

    // Requests that count as outstanding.
    uint32_t outstanding() const {
        return timing_.in_order ? waiting_.size() + writes_.size() + ends_.size() : in_flight();
    }

    // ---- in order ------------------------------------------------------------------------------

    // Performs the requests that wait, up to one that waits for what it is to write.
    void perform() {
        while (writes_.empty() && !waiting_.empty()) {
            auto [burst, write] = waiting_.front();
            waiting_.pop();
            if (write) {
                burst.due = begin(burst.due, burst);
                writes_.push(burst);
                continue;
            }
            for (; burst.beats; burst.beats--, burst.addr += timing_.bus_bytes) {
                uint64_t cycle = begin(burst.due, burst);
                reads_.push({cycle + timing_.latency, burst.addr, 1, burst.error,
                             burst.owner});
                occupy(cycle);
            }
            keep_apart();
            ends_.push(bus_free_);
        }
    }

    // The cycle from `cycle` on in which a beat may begin, its row open. No refresh comes between.
    uint64_t begin(uint64_t cycle, const Burst &burst) {
        cycle = std::max(cycle, bus_free_);
        refresh(cycle);
        return open_row(std::max(cycle, bus_free_), burst.addr, burst.owner);
    }

    // The next beat is not of the same read.
    void keep_apart() { bus_free_ = std::max(bus_free_, beat_ + timing_.beat_cycles); }

    // A beat of a write was taken.
    void go_on_writing(bool last, bool error) {
        keep_apart();
        if (last) {
            ends_.push(bus_free_);
            acknowledge(bus_free_, error);
            perform();
        } else {
            Burst &burst = writes_.front();
            burst.due = begin(burst.due, burst);
        }
    }

    // ---- refresh -------------------------------------------------------------------------------

    // The refreshes up to a cycle: they take the bus, and close all rows.
    void refresh(uint64_t now) {
        for (; refresh_ <= now; refresh_ += timing_.refresh_interval) {
            bus_free_ = std::max(bus_free_, refresh_ + timing_.refresh_cycles);
            for (Row &row : rows_) row.number = NEVER;
        }
    }

    // The same, for what is offered in this cycle. In order, all but a write without data is past.
    void refresh_offers(uint64_t now) {
        if (!timing_.in_order) return refresh(now);
        if (writes_.empty()) return;
        Burst &burst = writes_.front();
        while (burst.due < refresh_ && refresh_ <= now)
            burst.due = begin(refresh_, burst);
    }

    void advance(Fifo<Burst> &bursts, uint64_t now) {
        Burst &burst = bursts.front();
        burst.addr += timing_.bus_bytes;
        if (!--burst.beats) bursts.pop();
        occupy(now);
    }

    // The bus has a beat in this cycle.
    void occupy(uint64_t cycle) {
        bus_free_ = cycle + spacing(cycle) + gap(2, beats_++);
        beat_ = cycle;
    }

    // Where an address lies among those of its channel.
    uint64_t within(uint64_t addr) const {
        if (timing_.channels == 1) return addr;
        uint64_t block = timing_.block_bytes;
        return addr / (block * timing_.channels) * block + addr % block;
    }

    // When a request that comes at `now` finds its row open.
    uint64_t open_row(uint64_t now, uint64_t addr, uint32_t owner) {
        if (rows_.empty()) return now;
        uint64_t number = within(addr) / timing_.row_bytes;
        Row &row = rows_[number % timing_.banks];
        uint64_t start = std::max(now, row.free);
        if (row.number != number) {
            start += row.number == NEVER ? timing_.row_closed : timing_.row_miss;
            if (opened_) opened_[uint64_t(owner) * pitch_]++;
        }
        row = {number, start};
        return start;
    }

    uint64_t beat_cost() const { return timing_.bus_bytes * RATE_ONE; }

    // Cycles from a beat at `now` to the next one. Credit grows with the rate, a beat spends it;
    // less than a cycle's worth is kept.
    uint64_t spacing(uint64_t now) {
        uint64_t rate = timing_.rate, cost = beat_cost();
        if (!rate) return 1;
        credit_ = std::min(credit_ + (now - beat_) * rate, cost + rate - 1) - cost;
        return (cost - credit_ + rate - 1) / rate;
    }

    void acknowledge(uint64_t due, bool error) {
        due += gap(3, answers_++);
        if (!acks_.empty() && due <= acks_.back().due) due = acks_.back().due + 1;
        acks_.push({due, error});
    }

    void write(uint64_t addr, const uint8_t *data, const uint64_t *mask) {
        for (uint32_t i = 0; memory_ && i < timing_.bus_bytes; i++)
            if (mask[i / 64] >> i % 64 & 1) memory_[addr + i] = data[i];
    }

    // Half of all gaps are none; the others have 1 to 8 cycles, one in 32 of all up to 64.
    uint64_t gap(uint64_t kind, uint64_t number) const {
        if (!timing_.seed) return 0;
        uint64_t x = timing_.seed * 0x9E3779B97F4A7C15u + kind * 0xD1B54A32D192ED03u + number;
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
        x = (x ^ x >> 27) * 0x94D049BB133111EBu;
        x ^= x >> 31;
        if (x & 1) return 0;
        return x >> 1 & 15 ? 1 + (x >> 5) % 8 : 1 + (x >> 5) % 64;
    }

    int64_t *opened_;
    uint32_t pitch_;
    uint8_t *memory_;
    uint64_t size_;
    DramTiming timing_;
    Fifo<Burst> reads_, writes_;
    Fifo<Ack> acks_;
    Fifo<Waiting> waiting_;         // in order: requests that are not performed yet
    Fifo<uint64_t> ends_;           // of requests that were, in cycles to come
    std::vector<Row> rows_;
    uint64_t credit_;
    uint64_t beat_ = 0;             // when the bus had its latest
    uint64_t port_free_ = 0;        // in order: when the port is, for a beat that was read
    uint64_t refresh_;              // when the next one is
    uint64_t request_free_ = 0, bus_free_ = 0;
    uint64_t requests_ = 0, beats_ = 0, answers_ = 0;
    bool held_ = false, written_ = false, acking_ = false, violated_ = false;
};

// The memories of all channels, in which random gaps come at other times.
inline std::vector<Dram> channels_of(uint8_t *memory, uint64_t size, DramTiming timing,
                                     int64_t *opened = nullptr, uint32_t pitch = 0) {
    std::vector<Dram> channels;
    for (uint32_t channel = 0; channel < timing.channels; channel++) {
        channels.emplace_back(memory, size, timing, opened, pitch);
        if (timing.seed) timing.seed += 0x9E3779B97F4A7C15u;
    }
    return channels;
}

}  // namespace lockstep
