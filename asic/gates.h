// A netlist of gates, flip-flops and memories at work, as accel/sim/slice/harness.cpp has a core.
//
// Gates lie in levels: a gate is of a higher one than all that drive it. What has changed is looked
// at again, level by level, so a cycle costs what happens in it. Tables are made in asic/gates.py.

#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ports.h"

namespace gates {

constexpr unsigned INPUTS = 6;

// Fields as in asic/gates.py.
struct Memory {
    uint32_t rows, bits, part, address_bits;
    uint32_t pins;          // in `pins`: w_en, w_addr, w_data, r_en, r_addr, r_data
};

struct Tables {
    uint32_t nets, gates, levels, flops, memories, rst;
    const uint64_t *truth;
    const uint32_t *inputs, *outputs, *level;       // inputs: INPUTS of each gate, 0 where none
    const uint32_t *readers_begin, *readers;        // the gates that read a net
    const uint32_t *d, *q, *enable;                 // of flip-flops
    const Memory *memory;
    const uint32_t *pins, *port_begin, *port_nets;
    int64_t *changes;                               // of nets, from cycle to cycle
    int64_t *reads, *writes;                        // of memories
    int64_t *clocked;                               // of flip-flops: cycles with their enable
};

const Tables *tables = nullptr;
uint64_t seed = 1;

}  // namespace gates

extern "C" void gates_load(const gates::Tables *tables, uint64_t seed) {
    gates::tables = tables;
    gates::seed = seed;
}

class Core {
public:
    Core() : value_(t.nets), before_(t.nets), moved_(t.nets), queued_(t.gates), queue_(t.levels),
             next_(t.flops) {
        value_[1] = 1;
        for (uint32_t i = 0; i < t.flops; i++) value_[t.q[i]] = random() & 1;
        for (uint32_t i = 0; i < t.memories; i++) {
            const gates::Memory &memory = t.memory[i];
            storage_.emplace_back(size_t(memory.rows) * memory.bits);
            for (uint8_t &bit : storage_.back()) bit = random() & 1;
            for (uint32_t bit = 0; bit < memory.bits; bit++) value_[data_of(memory, bit)] = random() & 1;
        }
        for (uint32_t gate = 0; gate < t.gates; gate++) wake(gate);
        set(t.rst, 1);
        for (int edge = 0; edge < 2; edge++) commit();
        set(t.rst, 0);
        settle();
        for (uint32_t net : changed_) moved_[net] = 0;
        changed_.clear();
        counts_ = true;
    }

    void early() { settle(); }
    void late() { settle(); }
    void cold() { settle(); }

    // The clock rises.
    void commit() {
        settle();
        for (uint32_t net : changed_) {
            if (counts_ && value_[net] != before_[net]) t.changes[net]++;
            moved_[net] = 0;
        }
        changed_.clear();
        for (uint32_t i = 0; i < t.flops; i++) {
            bool on = value_[t.enable[i]];
            next_[i] = on ? value_[t.d[i]] : value_[t.q[i]];
            if (counts_) t.clocked[i] += on;
        }
        for (uint32_t i = 0; i < t.memories; i++) access(i);
        for (uint32_t i = 0; i < t.flops; i++) set(t.q[i], next_[i]);
        for (const auto &[net, bit] : read_) set(net, bit);
        read_.clear();
    }

    void put(unsigned port, const uint64_t *words) {
        for (uint32_t i = t.port_begin[port], bit = 0; i < t.port_begin[port + 1]; i++, bit++)
            set(t.port_nets[i], words[bit / 64] >> bit % 64 & 1);
    }

    void get(unsigned port, uint64_t *words) const {
        uint32_t begin = t.port_begin[port], bits = t.port_begin[port + 1] - begin;
        for (uint32_t word = 0; word < (bits + 63) / 64; word++) words[word] = 0;
        for (uint32_t bit = 0; bit < bits; bit++)
            words[bit / 64] |= uint64_t(value_[t.port_nets[begin + bit]]) << bit % 64;
    }

#define PORT(number, name) \
    void set_##name(const uint64_t *words) { put(number, words); } \
    void get_##name(uint64_t *words) const { get(number, words); }
    GATES_PORTS(PORT)
#undef PORT
#define UNIT(name) \
    void get_##name##_activity(uint64_t *words) const { *words = 0; } \
    void get_##name##_watched(uint64_t *words) const { *words = 0; }
    LOCKSTEP_EXECUTION_UNITS(UNIT)
#undef UNIT

private:
    const gates::Tables &t = *gates::tables;

    uint64_t random() {         // xorshift64*, S. Vigna, 2016
        state_ ^= state_ >> 12;
        state_ ^= state_ << 25;
        state_ ^= state_ >> 27;
        return state_ * 0x2545F4914F6CDD1Dull >> 33;
    }

    void set(uint32_t net, uint8_t bit) {
        if (value_[net] == bit || net < 2) return;
        if (!moved_[net]) {
            moved_[net] = 1;
            before_[net] = value_[net];
            changed_.push_back(net);
        }
        value_[net] = bit;
        for (uint32_t i = t.readers_begin[net]; i < t.readers_begin[net + 1]; i++)
            wake(t.readers[i]);
    }

    void wake(uint32_t gate) {
        if (queued_[gate]) return;
        queued_[gate] = 1;
        queue_[t.level[gate]].push_back(gate);
        awake_ = true;
    }

    void settle() {
        if (!awake_) return;
        awake_ = false;
        for (auto &level : queue_) {
            for (size_t i = 0; i < level.size(); i++) {
                uint32_t gate = level[i];
                queued_[gate] = 0;
                const uint32_t *inputs = t.inputs + size_t(gate) * gates::INPUTS;
                unsigned row = 0;
                for (unsigned k = 0; k < gates::INPUTS; k++) row |= value_[inputs[k]] << k;
                set(t.outputs[gate], t.truth[gate] >> row & 1);
            }
            level.clear();
        }
        awake_ = false;
    }

    uint32_t data_of(const gates::Memory &memory, uint32_t bit) const {
        return t.pins[memory.pins + memory.bits / memory.part + 2 * memory.address_bits
                      + memory.bits + 1 + bit];
    }

    uint32_t number(const uint32_t *nets, uint32_t bits) const {
        uint32_t result = 0;
        for (uint32_t bit = 0; bit < bits; bit++) result |= uint32_t(value_[nets[bit]]) << bit;
        return result;
    }

    void access(uint32_t which) {
        const gates::Memory &memory = t.memory[which];
        std::vector<uint8_t> &storage = storage_[which];
        const uint32_t parts = memory.bits / memory.part;
        const uint32_t *w_en = t.pins + memory.pins, *w_addr = w_en + parts,
                       *w_data = w_addr + memory.address_bits, *r_en = w_data + memory.bits,
                       *r_addr = r_en + 1;
        if (value_[*r_en]) {
            const uint32_t row = number(r_addr, memory.address_bits);
            for (uint32_t bit = 0; bit < memory.bits; bit++)
                read_.emplace_back(data_of(memory, bit), row < memory.rows
                                   ? storage[size_t(row) * memory.bits + bit] : random() & 1);
            if (counts_) t.reads[which]++;
        }
        bool writes = false;
        const uint32_t row = number(w_addr, memory.address_bits);
        for (uint32_t part = 0; part < parts; part++) {
            if (!value_[w_en[part]]) continue;
            writes = true;
            for (uint32_t bit = part * memory.part; bit < (part + 1) * memory.part; bit++)
                if (row < memory.rows) storage[size_t(row) * memory.bits + bit] = value_[w_data[bit]];
        }
        if (counts_ && writes) t.writes[which]++;
    }

    uint64_t state_ = gates::seed * 0x9E3779B97F4A7C15ull | 1;
    std::vector<uint8_t> value_, before_, moved_, queued_;
    std::vector<std::vector<uint32_t>> queue_;
    std::vector<uint8_t> next_;
    std::vector<std::vector<uint8_t>> storage_;
    std::vector<uint32_t> changed_;
    std::vector<std::pair<uint32_t, uint8_t>> read_;
    bool counts_ = false, awake_ = false;
};
