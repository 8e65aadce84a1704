// Programs of the cycle simulator: instructions as plain structs, and their loops.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dram.h"
#include "layouts.h"
#include "names.h"

namespace lockstep {
namespace {

constexpr unsigned UNITS = unit::count, LEVELS = 6, OPERANDS = 4, BANKS = 2;
constexpr unsigned DST = 0, A = 1, B = 2, C = 3;
constexpr unsigned NO_UNIT = ~0u, COMPUTING = sizeof(unit::computing) / sizeof(uint32_t);

// Whether a unit is one of those that share the banks.
constexpr bool computes(unsigned unit) {
    for (unsigned one : unit::computing)
        if (one == unit) return true;
    return false;
}

// Of the others, all, or those that come after it in a cycle: masks.
constexpr uint32_t sharing(unsigned unit, bool later = false) {
    uint32_t mask = 0;
    for (unsigned one : unit::computing) {
        if (one == unit && later) mask = 0;
        if (one != unit) mask |= 1u << one;
    }
    return mask;
}

// A loop of a DMA or compute instruction: extent, and a stride for each address.
struct Loop {
    uint32_t extent;
    uint32_t stride[OPERANDS];      // of a DMA instruction: in memory, in the buffer
    uint32_t before, after;
};

struct Instruction {
    uint32_t unit;                  // unit::fetch: FINISH; NO_UNIT: unknown opcode
    uint32_t waits, signals;        // masks
    uint32_t levels;
    Loop loops[LEVELS];
    uint32_t base[OPERANDS];        // entries; of a DMA instruction: bytes, in memory and the buffer

    uint32_t run;                   // DMA: bytes minus one
    uint32_t size;                  // DMA: bytes of the buffer, of packed elements; 0: it may not
                                    // name that buffer, or not so packed
    bool pads;                      // DMA: some iterations may be padding

    uint32_t banks;                 // compute: mask
    uint32_t limit[OPERANDS];       // compute: entries; 0: any address will do
    bool in_acc[OPERANDS];          // compute: the address must be in one of `banks`
    bool illegal;                   // vector: what follows is false then
    bool twice, reads_acc, reads_res, reads_par, to_acc, folds, reset;

    uint64_t count() const {
        uint64_t product = 1;
        for (unsigned level = 0; level < levels && product < NEVER >> 20; level++)
            product *= loops[level].extent;
        return product;
    }
    // Iterations that read their destination.
    uint64_t folding() const {
        uint64_t assigned = 1;
        for (unsigned level = 0; level < levels && reset; level++)
            if (loops[level].stride[DST]) assigned *= loops[level].extent;
        return to_acc && folds ? count() - (reset ? assigned : 0) : 0;
    }
};

// Decodes the words of a machine.
class Decoder {
public:
    Decoder(const Parameters &parameters, const Opcode *opcodes, const uint32_t *bases)
        : p_(parameters), opcodes_(opcodes), bases_(bases) {}

    Instruction decode(const uint8_t *word) const {
        const Opcode &opcode = opcodes_[word::get(word, word::control::opcode)];
        Instruction result = {};
        result.unit = opcode.unit;
        result.waits = get(word, word::control::waits) & ((1 << UNITS) - 1);
        result.signals = get(word, word::control::signals) & ((1 << UNITS) - 1);
        if (opcode.unit == unit::load || opcode.unit == unit::store) dma(word, result);
        if (opcode.unit == unit::gemm) gemm(word, opcode, result);
        if (computes(opcode.unit) && opcode.unit != unit::gemm) vector(word, opcode, result);
        return result;
    }

private:
    static uint32_t get(const uint8_t *word, word::Bits field, int distance = 0) {
        return uint32_t(word::get(word, field, distance));
    }

    void dma(const uint8_t *word, Instruction &result) const {
        namespace format = word::dma;
        result.levels = format::loops;
        for (int level = 0; level < format::loops; level++) {
            int at = level * format::loops_pitch;
            result.loops[level] = {get(word, format::loops_extent, at),
                                   {get(word, format::loops_dram, at),
                                    get(word, format::loops_buffer, at), 0},
                                   get(word, format::loops_before, at),
                                   get(word, format::loops_after, at)};
            result.pads |= result.loops[level].before || result.loops[level].after;
        }
        result.base[0] = bases_[get(word, format::base)] + get(word, format::dram);
        result.base[1] = get(word, format::address);
        result.run = get(word, format::run) - 1;
        uint32_t named = get(word, {int(p_.buffer_place), int(p_.buffer_bits), false, 0});
        uint32_t mask = result.unit == unit::load ? buffer::loaded : buffer::stored;
        uint32_t code = result.unit == unit::load && p_.weight_codes ? get(word, format::bits) : 0;
        bool packs = !code || (named == buffer::wgt && p_.weight_codes >> code & 1);
        if (mask >> named & 1 && packs) result.size = p_.size[named] >> code;
    }

    void gemm(const uint8_t *word, const Opcode &opcode, Instruction &result) const {
        namespace format = word::gemm;
        result.levels = format::loops;
        loops(word, format::loops_extent, format::loops_dst, format::loops_a, format::loops_b,
              format::loops_pitch, result);
        result.base[DST] = get(word, format::base_dst);
        result.base[A] = get(word, format::base_a);
        result.base[B] = get(word, format::base_b);
        result.banks = get(word, format::banks);
        result.limit[DST] = p_.depth[buffer::acc];
        result.limit[A] = p_.depth[buffer::inp];
        result.limit[B] = opcode.b ? p_.depth[buffer::wgt] : 0;
        result.in_acc[DST] = result.to_acc = true;
        result.folds = opcode.folds;
        result.reset = get(word, format::reset);
    }

    // As `Vector._decode` in accel/hw/vector.py.
    void vector(const uint8_t *word, const Opcode &opcode, Instruction &result) const {
        namespace format = word::vector;
        result.levels = format::loops;
        loops(word, format::loops_extent, format::loops_dst, format::loops_a, format::loops_b,
              format::loops_pitch, result);
        result.base[DST] = get(word, format::base_dst);
        result.base[A] = get(word, format::base_a);
        result.base[B] = get(word, format::base_b);
        result.base[C] = get(word, format::c);                  // no loop moves it
        result.banks = get(word, format::banks);
        uint32_t a = get(word, format::a_source), b = get(word, format::b_source);
        uint32_t to = get(word, format::destination);
        result.illegal = (opcode.a && !(opcode.a >> a & 1)) || (opcode.b && !(opcode.b >> b & 1))
                         || !(opcode.destinations >> to & 1);
        if (result.illegal) return;
        bool a_acc = opcode.a && a == source_a::acc, b_acc = opcode.b && b == source_b::acc;
        bool a_res = opcode.a && a == source_a::res, b_res = opcode.b && b == source_b::res;
        auto within = [&](unsigned operand, bool used, unsigned name) {
            if (!used) return;
            uint32_t &limit = result.limit[operand];
            limit = limit ? std::min(limit, p_.depth[name]) : p_.depth[name];
            result.in_acc[operand] |= name == buffer::acc;
        };
        within(A, a_acc, buffer::acc);
        within(A, a_res, opcode.res);
        within(B, b_acc, buffer::acc);
        within(B, b_res, opcode.res);
        within(B, opcode.b && b == source_b::par, opcode.par);
        within(opcode.record, opcode.record, opcode.par);       // where its address is
        within(opcode.table, opcode.table, opcode.tab);
        within(DST, to == destination::acc, buffer::acc);
        within(DST, to == destination::out, opcode.out);
        result.reads_acc = a_acc || b_acc;
        result.reads_res = a_res || b_res;
        result.reads_par = opcode.record || (opcode.b && b == source_b::par);
        result.twice = (a_acc && b_acc) || (a_res && b_res);
        result.to_acc = to == destination::acc;
        result.folds = opcode.folds;
        result.reset = get(word, format::reset);
    }

    void loops(const uint8_t *word, word::Bits extent, word::Bits dst, word::Bits a, word::Bits b,
               int pitch, Instruction &result) const {
        for (unsigned level = 0; level < result.levels; level++) {
            int at = int(level) * pitch;
            result.loops[level] = {get(word, extent, at), {get(word, dst, at), get(word, a, at),
                                                           get(word, b, at)}, 0, 0};
        }
    }

    const Parameters &p_;
    const Opcode *opcodes_;
    const uint32_t *bases_;
};

// Where a compute instruction stands in its loops; accel/hw/loops.py.
class Nest {
public:
    void load(const Instruction &instruction) {
        instruction_ = &instruction;
        count_ = instruction.illegal ? 1 : instruction.count();
        seek(0);
    }

    const Instruction &instruction() const { return *instruction_; }
    uint64_t count() const { return count_; }
    uint64_t iteration() const { return iteration_; }
    bool last() const { return iteration_ + 1 == count_; }
    uint32_t address(unsigned operand) const { return address_[operand] & 0xFFFF; }

    // All loops that do not move the destination stand at 0.
    bool first() const {
        for (unsigned level = 0; level < instruction_->levels; level++)
            if (at_[level] && !instruction_->loops[level].stride[DST]) return false;
        return true;
    }

    void step() {
        iteration_++;
        for (unsigned level = instruction_->levels; level--;) {
            const Loop &loop = instruction_->loops[level];
            bool ended = at_[level] + 1 == loop.extent;
            uint32_t by = ended ? -at_[level] : 1;
            for (unsigned k = 0; k < OPERANDS; k++) address_[k] += by * loop.stride[k];
            at_[level] += by;
            if (!ended) return;
        }
    }

    void seek(uint64_t iteration) {
        iteration_ = iteration;
        for (unsigned k = 0; k < OPERANDS; k++) address_[k] = instruction_->base[k];
        for (unsigned level = instruction_->levels; level--;) {
            const Loop &loop = instruction_->loops[level];
            at_[level] = uint32_t(iteration % loop.extent);
            iteration /= loop.extent;
            for (unsigned k = 0; k < OPERANDS; k++) address_[k] += at_[level] * loop.stride[k];
        }
    }

    // Whether the current addresses are outside their buffers, or in banks that are not named.
    bool outside(uint32_t bank_depth) const {
        const Instruction &one = *instruction_;
        for (unsigned k = 0; k < OPERANDS; k++) {
            uint32_t place = address(k);
            if (one.limit[k] && place >= one.limit[k]) return true;
            if (one.in_acc[k] && !(one.banks >> (place / bank_depth & 1) & 1)) return true;
        }
        return false;
    }

private:
    const Instruction *instruction_ = nullptr;
    uint64_t count_ = 0, iteration_ = 0;
    uint32_t at_[LEVELS] = {}, address_[OPERANDS] = {};
};

// Results of an instruction that meet acc, and those of them that read it.
struct Meetings {
    uint64_t count, folding;
};

// Where iterations that follow each other into one destination meet it together.
inline Meetings runs_of(Instruction one, uint64_t most) {
    for (unsigned level = one.levels; level-- && (one.loops[level].extent == 1
                                                  || !one.loops[level].stride[DST]);)
        one.loops[level].extent = 1;            // one run, which its first iteration decides
    Meetings result = {0, 0};
    Nest nest;
    nest.load(one);
    for (uint64_t iteration = 0, assigns = 0; iteration < most; iteration++) {
        assigns |= !one.folds || (one.reset && nest.first());
        uint32_t place = nest.address(DST);
        bool last = nest.last();
        if (!last) nest.step();
        if (last || nest.address(DST) != place) {
            result.count++;
            result.folding += !assigns;
            assigns = 0;
        }
        if (last) break;
    }
    return result;
}

// Whether an iteration has an error, among the first `most`.
inline bool has_error(const Instruction &instruction, uint32_t bank_depth, uint64_t most) {
    if (instruction.illegal) return true;
    bool safe = true;
    for (unsigned k = 0; k < OPERANDS; k++) {
        if (!instruction.limit[k]) continue;
        int64_t low = instruction.base[k], high = low;
        for (unsigned level = 0; level < instruction.levels; level++) {
            const Loop &loop = instruction.loops[level];
            int64_t reach = int64_t(loop.extent - 1) * int16_t(loop.stride[k]);
            (reach < 0 ? low : high) += reach;
        }
        int64_t floor = 0, ceiling = instruction.limit[k];
        if (instruction.in_acc[k] && instruction.banks != 3) {
            floor = instruction.banks == 2 ? bank_depth : 0;
            ceiling = instruction.banks ? floor + bank_depth : 0;
        }
        safe &= low >= floor && high < ceiling;
    }
    if (safe) return false;
    Nest nest;
    nest.load(instruction);
    for (uint64_t iteration = 0; iteration < most; iteration++) {
        if (nest.outside(bank_depth)) return true;
        if (nest.last()) break;
        nest.step();
    }
    return false;
}

}  // namespace
}  // namespace lockstep
