// What the instructions of a stream touch, as address sets; accel/proof/batches.py says what this is
// for and builds the tables that it is given.
//
// Nothing here knows an instruction by name: opcode and selectors lead to a form, which says what
// memories its operands lie in. An instruction that needs a second look (its addresses wrap, are
// out of range, or it reads what it may have written itself) is `odd`, and left to Python.

#include <cstdint>

#include "layouts.h"
#include "sets.h"

using namespace lockstep;

namespace {

enum Kind { ODD, COPY, PRODUCT, VECTOR };
enum Field { DST, A, B, C, FIELDS };
enum End { DRAM, BUFFER };                      // of a copy

}  // namespace

extern "C" {

struct Operand {
    int32_t field, memory, write;
    int32_t segment;                            // of memory outside; -1: a buffer
    int32_t constant;                           // outside: nothing ever writes there
    int32_t acc;                                // `banks` must name the banks
    int64_t scale, width, limit;                // bytes, or entries of acc
};

struct Form {
    int32_t kind, operands, reads_destination, unit;
    Operand operand[8];
};

struct Machine {
    const Form *forms;
    const int32_t *form;                        // by opcode and selectors: 256 * 256
    int64_t bank_depth;
    int32_t packs;                              // loads have the field `bits`
    int32_t load;                               // number of the unit
    int32_t code_offset, code_width;            // bits of the field `buffer` of load and store
};

struct Found {
    uint8_t *unit;
    int64_t *first;
    int32_t *sets;
    Set *set;
    SetLoop *loop;
    int64_t *odd;
    int64_t counts[3];                          // sets, loops, odd instructions
};

}  // extern "C"

namespace {

constexpr int SELECTORS = 256, MOST = word::gemm::loops;

struct Walk {
    int64_t base, low, high;
    int loops = 0;
    SetLoop loop[MOST];

    explicit Walk(int64_t base = 0) : base(base), low(base), high(base) {}

    void add(int64_t extent, int64_t stride) {
        int64_t reach = (extent - 1) * stride;
        (reach < 0 ? low : high) += reach;
        loop[loops++] = {extent, stride};
    }
    bool same(const Walk &other) const {
        bool equal = base == other.base && loops == other.loops;
        for (int k = 0; equal && k < loops; k++) equal = loop[k].stride == other.loop[k].stride;
        return equal;
    }
};

// A stride modulo a power of two, read as signed: the shorter way round.
int64_t shorter(int64_t stride, int64_t modulus) {
    return stride >= modulus >> 1 ? stride - modulus : stride;
}

class Decoder {
public:
    Decoder(const Machine &machine, const int64_t *segments, Found &found)
        : machine_(machine), segments_(segments), found_(found) {}

    void decode(const uint8_t *word, int64_t number) {
        int opcode = int(get(word, word::control::opcode));
        const Form *form = &machine_.forms[machine_.form[opcode * SELECTORS]];
        int selectors = 0;
        if (form->kind == COPY) {
            bool packs = machine_.packs && form->unit == machine_.load;
            word::Bits buffer{machine_.code_offset, machine_.code_width, false, 0};
            selectors = int(get(word, buffer) | get(word, word::dma::base) << 4
                            | (packs ? get(word, word::dma::bits) << 6 : 0));
        } else if (form->kind == VECTOR) {
            selectors = int(get(word, word::vector::a_source) | get(word, word::vector::b_source) << 1
                            | get(word, word::vector::destination) << 3);
        }
        form = &machine_.forms[machine_.form[opcode * SELECTORS + selectors]];
        found_.unit[number] = uint8_t(form->unit);
        found_.first[number] = sets_;
        int64_t loops = loops_;
        bool is_plain = form->operands >= 0
                        && (form->kind == COPY ? copy(word, *form) : compute(word, *form));
        if (!is_plain) {
            sets_ = found_.first[number];
            loops_ = loops;
            found_.odd[odd_++] = number;
        }
        found_.sets[number] = int32_t(sets_ - found_.first[number]);
    }

    void finish() {
        found_.counts[0] = sets_;
        found_.counts[1] = loops_;
        found_.counts[2] = odd_;
    }

private:
    static int64_t get(const uint8_t *word, word::Bits field, int distance = 0) {
        return word::get(word, field, distance);
    }

    bool copy(const uint8_t *word, const Form &form) {
        namespace format = word::dma;
        bool loads = form.unit == machine_.load;
        int64_t first = get(word, format::dram);
        SetLoop outside[format::loops], inside[format::loops];
        bool moves = true;
        for (int level = 0; level < format::loops; level++) {
            int at = level * format::loops_pitch;
            int64_t extent = get(word, format::loops_extent, at), low = 0, high = extent;
            int64_t stride = get(word, format::loops_dram, at);
            if (loads) {
                low = get(word, format::loops_before, at);
                high = extent - get(word, format::loops_after, at);
            }
            if (high <= low) moves = false;
            first += low * stride;
            outside[level] = {high - low, stride};
            inside[level] = {extent, shorter(get(word, format::loops_buffer, at), 1 << 24)};
        }
        int64_t run = get(word, format::run);
        for (int k = 0; k < form.operands; k++) {
            const Operand &operand = form.operand[k];
            bool is_outside = operand.field == DRAM;
            if (is_outside && !moves) continue;
            Walk walk(is_outside ? first & 0xFFFFFFFF : get(word, format::address));
            for (const SetLoop &loop : is_outside ? outside : inside)
                if (loop.extent > 1) walk.add(loop.extent, loop.stride);
            int64_t modulus = is_outside ? int64_t(1) << 32 : 1 << 24;
            if (!add(operand, walk, modulus, operand.scale * run, 0)) return false;
        }
        return true;
    }

    bool compute(const uint8_t *word, const Form &form) {
        bool is_product = form.kind == PRODUCT;
        int levels = is_product ? word::gemm::loops : word::vector::loops;
        int pitch = is_product ? word::gemm::loops_pitch : word::vector::loops_pitch;
        word::Bits extents = is_product ? word::gemm::loops_extent : word::vector::loops_extent;
        int64_t extent[MOST];
        for (int level = 0; level < levels; level++) extent[level] = get(word, extents, level * pitch);
        int64_t banks = get(word, is_product ? word::gemm::banks : word::vector::banks);
        Walk walks[8];
        for (int k = 0; k < form.operands; k++) {
            const Operand &operand = form.operand[k];
            walks[k] = Walk(get(word, base(is_product, operand.field)));
            for (int level = 0; level < levels; level++)
                if (extent[level] > 1) {
                    int64_t stride = operand.field == C ? 0 : shorter(
                        get(word, moved(is_product, operand.field), level * pitch), 1 << 16);
                    walks[k].add(extent[level], stride);
                }
        }
        const Operand *to = form.operands ? &form.operand[form.operands - 1] : nullptr;
        if (!to || !to->write) to = nullptr;
        for (int k = 0; k < form.operands; k++) {
            const Operand &operand = form.operand[k];
            const Walk &walk = walks[k], &last = walks[form.operands - 1];
            bool apart = walk.high < last.low || last.high < walk.low;
            if (to && &operand != to && operand.memory == to->memory && !apart && !walk.same(last))
                return false;                   // it may read what it wrote itself
            if (!add(operand, walk, 1 << 16, operand.width, banks)) return false;
        }
        if (to && form.reads_destination
            && !get(word, is_product ? word::gemm::reset : word::vector::reset)) {
            found_.set[sets_] = found_.set[sets_ - 1];
            found_.set[sets_++].write = 0;
        }
        return true;
    }

    static word::Bits base(bool is_product, int field) {
        using namespace word;
        const word::Bits product[] = {gemm::base_dst, gemm::base_a, gemm::base_b, vector::c};
        const word::Bits other[] = {vector::base_dst, vector::base_a, vector::base_b, vector::c};
        return (is_product ? product : other)[field];
    }
    static word::Bits moved(bool is_product, int field) {
        using namespace word;
        const word::Bits product[] = {gemm::loops_dst, gemm::loops_a, gemm::loops_b};
        const word::Bits other[] = {vector::loops_dst, vector::loops_a, vector::loops_b};
        return (is_product ? product : other)[field];
    }

    // Adds what an operand touches. False where the instruction is odd.
    bool add(const Operand &operand, const Walk &walk, int64_t modulus, int64_t width,
             int64_t banks) {
        if (walk.low < 0 || walk.high >= modulus) return false;
        int64_t limit = operand.segment < 0 ? operand.limit : segments_[operand.segment];
        if (walk.high * operand.scale + width > limit) return false;
        if (operand.acc)
            for (int64_t at = walk.low;; at = walk.high) {
                if (!(banks >> at / machine_.bank_depth & 1)) return false;
                if (at == walk.high) break;
            }
        if (operand.constant) return !operand.write;
        Set &set = found_.set[sets_++];
        set = {walk.base * operand.scale, width, int32_t(loops_), walk.loops, operand.memory,
               operand.write};
        for (int k = 0; k < walk.loops; k++)
            found_.loop[loops_++] = {walk.loop[k].extent, walk.loop[k].stride * operand.scale};
        return true;
    }

    const Machine &machine_;
    const int64_t *segments_;
    Found &found_;
    int64_t sets_ = 0, loops_ = 0, odd_ = 0;
};

}  // namespace

// Finds what `count` words touch, which are followed by seven readable bytes. `segments` says how
// many bytes each has.
extern "C" void touched(const Machine *machine, const uint8_t *words, int64_t count,
                        const int64_t *segments, Found *found) {
    Decoder decoder(*machine, segments, *found);
    for (int64_t number = 0; number < count; number++)
        decoder.decode(words + number * word::BYTES, number);
    decoder.finish();
}
