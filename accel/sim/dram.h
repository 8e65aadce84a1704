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
// by beat. A read beat that was offered holds the bus until it is taken.
//
// With a seed, random gaps (a function of the seed and of the running number of the request, beat
// or acknowledgement) hold back requests, beats and acknowledgements.

#pragma once

#include <cstdint>
#include <cstring>
#include <deque>

namespace lockstep {

struct DramTiming {
    uint32_t bus_bytes;
    uint32_t latency;       // cycles
    uint32_t outstanding;   // bursts in flight
    uint64_t seed;          // of random stalls; 0: none
};

struct DramOffer {
    bool request_ready, wdata_ready, read_valid, read_error, ack_valid, ack_error;
    const uint8_t *read_data;       // bus_bytes bytes; null for an error
};

struct DramTaken {
    bool request, wdata, read;      // handshakes of this cycle
    uint32_t addr, beats;           // of the request
    bool write;
    const uint8_t *data;            // of wdata: bus_bytes bytes
    uint64_t mask;                  // bit i: byte i is written
};

class Dram {
public:
    Dram(uint8_t *memory, uint64_t size, const DramTiming &timing)
        : memory_(memory), size_(size), timing_(timing) {}

    DramOffer offer(uint64_t now, bool wdata_valid) {
        DramOffer result = {};
        result.request_ready = in_flight() < timing_.outstanding && now >= request_free_;
        bool bus = now >= bus_free_;
        bool due = !reads_.empty() && now >= reads_.front().due;
        bool room = !writes_.empty() && now >= writes_.front().due;
        held_ = bus && due && (held_ || written_ || !(wdata_valid && room));
        result.wdata_ready = bus && room && !held_;
        if (held_) {
            const Burst &burst = reads_.front();
            result.read_valid = true;
            result.read_error = burst.error;
            result.read_data = burst.error ? nullptr : memory_ + burst.addr;
        }
        if (!acks_.empty() && now >= acks_.front().due) {
            result.ack_valid = true;
            result.ack_error = acks_.front().error;
        }
        acking_ = result.ack_valid;
        return result;
    }

    void edge(uint64_t now, const DramTaken &taken) {
        if (acking_) acks_.pop_front();
        if (taken.read) {
            held_ = written_ = false;
            advance(reads_, now);
        }
        if (taken.wdata) {
            written_ = true;
            Burst &burst = writes_.front();
            if (!burst.error) write(burst.addr, taken.data, taken.mask);
            bool last = burst.beats == 1, error = burst.error;
            advance(writes_, now);
            if (last) acknowledge(now, error);
        }
        if (taken.request) accept(now, taken);
    }

    // Bursts that were accepted and not completed.
    uint32_t in_flight() const {
        return uint32_t(reads_.size() + writes_.size() + acks_.size());
    }

    // Whether a request broke the rules of the port: alignment, length, the 64-byte boundary.
    bool violated() const { return violated_; }

private:
    struct Burst {
        uint64_t due;       // earliest cycle of the next beat
        uint64_t addr;
        uint32_t beats;     // that are left
        bool error;
    };
    struct Ack {
        uint64_t due;
        bool error;
    };

    void accept(uint64_t now, const DramTaken &taken) {
        uint64_t bytes = uint64_t(taken.beats) * timing_.bus_bytes;
        violated_ |= taken.addr % timing_.bus_bytes || taken.addr % 64 + bytes > 64;
        bool error = taken.addr + bytes > size_;
        uint64_t due = now + 1 + (taken.write ? 0 : timing_.latency);
        (taken.write ? writes_ : reads_).push_back({due, taken.addr, taken.beats, error});
        request_free_ = now + 1 + gap(1, requests_++);
    }

    void advance(std::deque<Burst> &bursts, uint64_t now) {
        Burst &burst = bursts.front();
        burst.addr += timing_.bus_bytes;
        if (!--burst.beats) bursts.pop_front();
        bus_free_ = now + 1 + gap(2, beats_++);
    }

    void acknowledge(uint64_t now, bool error) {
        uint64_t due = now + timing_.latency + 1 + gap(3, answers_++);
        if (!acks_.empty() && due <= acks_.back().due) due = acks_.back().due + 1;
        acks_.push_back({due, error});
    }

    void write(uint64_t addr, const uint8_t *data, uint64_t mask) {
        for (uint32_t i = 0; i < timing_.bus_bytes; i++)
            if (mask >> i & 1) memory_[addr + i] = data[i];
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

    uint8_t *memory_;
    uint64_t size_;
    DramTiming timing_;
    std::deque<Burst> reads_, writes_;
    std::deque<Ack> acks_;
    uint64_t request_free_ = 0, bus_free_ = 0;
    uint64_t requests_ = 0, beats_ = 0, answers_ = 0;
    bool held_ = false, written_ = false, acking_ = false, violated_ = false;
};

}  // namespace lockstep
