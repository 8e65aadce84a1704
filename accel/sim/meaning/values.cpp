// Values of a program in stream order; accel/sim/meaning/values.py says what this is for, builds the tables
// that it is given, and compiles it.
//
// Nothing here knows an instruction by name: opcodes lead to kernels. A kernel is a block product,
// or the body of an operation as straight-line code over int64 lanes. What a type cannot hold is
// cut off after each step. Lanes are computed for many iterations at once; where an iteration may
// read what an earlier one wrote, for one at a time.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "layouts.h"

namespace {

enum Outcome { DONE, HOST, ODD };
enum Form { PRODUCT, BODY, FOREIGN, REFUSED };
enum Update { ASSIGN, SUM, MAX, MIN };
enum Base { DST, A, B, C, BASES };
enum Code { CONST, SCALAR, READ, LOOKUP, CAST, BOOL, ADD, SUB, MUL, LOW, HIGH, AND, OR, XOR, SHL, SHR,
            ROUND, LT, LE, GT, GE, EQ, NE, SELECT, ABS, SUM_LANES, MAX_LANES, MIN_LANES };

constexpr int UNITS = 8, SELECTORS = 16, MAX_LOOPS = word::gemm::loops;
constexpr int64_t CHUNK = 256;          // lanes at once: what they take stays in the cache

}  // namespace

extern "C" {

struct Step {
    // a, b, c: numbers of earlier steps; of SCALAR first bit, width and sign of the field
    int32_t code, bits, is_signed, a, b, c;
    int64_t value;                              // of CONST; which operand
};

struct Operand {
    int32_t buffer, base;
    const int32_t *lanes;       // byte offset of every lane within an entry; of a table nothing
};

struct Kernel {
    int32_t form, buffer, update, loops, steps, uniform, operands;
    const Step *step;           // the first `uniform` are the same for all lanes
    const Operand *operand;     // of PRODUCT: the two factors
};

struct Buffer {
    uint8_t *data;
    int64_t size, entry;        // bytes
    int64_t bits;               // of an element, negative for signed ones; 0: a record
};

struct Machine {
    int32_t batch, block_in, block_out, acc, store;     // numbers of a buffer and of a unit
    int32_t wgt, weight_codes;          // a buffer; codes of `bits`, 0: loads have no such field
    int32_t pads_high;                  // loads have `pad_high`
    int32_t tokens;                     // of a full counter
    int32_t code_offset, code_width;    // bits of the field `buffer` of load and store
    int32_t unit[256];                                  // UNITS: fetch; -1: no instruction
    int32_t dma[UNITS];                                 // mask of buffers; 0: computes
    const Kernel *kernel[256 * SELECTORS];
    Buffer buffer[16];
};

struct Program {
    const uint8_t *words;
    int64_t count;
    uint8_t *memory;
    int64_t size, base[4];
    int64_t position;           // in: where to begin; out: the instruction of the outcome
    int32_t counters[UNITS * UNITS];
};

}  // extern "C"

namespace {

struct Loop {
    int64_t extent, stride[BASES];
};

// Loops around an iteration, the first outermost, and the addresses that they walk.
struct Nest {
    int depth = 0;
    Loop loops[MAX_LOOPS];
    int64_t base[BASES] = {};

    // Lowest and highest address; none wraps where these are in range.
    void bounds(int which, int64_t &low, int64_t &high) const {
        low = high = base[which];
        for (int k = 0; k < depth; k++) {
            int64_t reach = (loops[k].extent - 1) * loops[k].stride[which];
            (reach < 0 ? low : high) += reach;
        }
    }

    // Whether no address comes twice. May say no where it would take long to be sure.
    bool unique(int which) const {
        std::vector<std::pair<int64_t, int64_t>> steps;
        for (int k = 0; k < depth; k++)
            steps.push_back({std::abs(loops[k].stride[which]), loops[k].extent});
        std::sort(steps.begin(), steps.end());
        int64_t reach = 1;
        for (auto [stride, extent] : steps) {
            if (stride < reach) return false;
            reach += stride * (extent - 1);
        }
        return true;
    }

    bool same(int one, int other) const {
        bool equal = base[one] == base[other];
        for (int k = 0; k < depth; k++) equal &= loops[k].stride[one] == loops[k].stride[other];
        return equal;
    }
};

// The iterations of a nest, one after the other.
class Walk {
public:
    explicit Walk(const Nest &nest) : nest_(nest) {
        std::copy(nest.base, nest.base + BASES, at);
    }

    int64_t at[BASES];

    // Every loop that does not move the destination stands at 0.
    bool begins() const { return folded_ == 0; }

    bool next() {
        for (int k = nest_.depth - 1; k >= 0; k--) {
            const Loop &loop = nest_.loops[k];
            bool folds = loop.stride[DST] == 0;
            if (++index_[k] < loop.extent) {
                folded_ += folds && index_[k] == 1;
                for (int b = 0; b < BASES; b++) at[b] += loop.stride[b];
                return true;
            }
            folded_ -= folds;
            index_[k] = 0;
            for (int b = 0; b < BASES; b++) at[b] -= loop.stride[b] * (loop.extent - 1);
        }
        return false;
    }

private:
    const Nest &nest_;
    int64_t index_[MAX_LOOPS] = {};
    int folded_ = 0;            // loops with destination stride 0 that do not stand at 0
};

int64_t cut(int64_t value, int bits, bool is_signed) {
    int unused = 64 - bits;
    uint64_t high = uint64_t(value) << unused;
    return is_signed ? int64_t(high) >> unused : int64_t(high >> unused);
}

// ---- bodies ------------------------------------------------------------------------------------

int64_t shift_left(int64_t a, int64_t b) {
    return uint64_t(b) > 63 ? 0 : int64_t(uint64_t(a) << b);
}

int64_t shift_right(int64_t a, int64_t b) { return a >> (uint64_t(b) > 63 ? 63 : b); }

// a / 2**b rounded half to even, once.
int64_t round_even(int64_t a, int64_t b) {
    int64_t amount = b & 63, floor = a >> amount;
    uint64_t rest = uint64_t(a) - (uint64_t(floor) << amount);
    uint64_t half = (uint64_t(1) << amount) >> 1;
    return floor + int64_t((rest > half) | ((rest == half) & (half != 0) & (floor & 1)));
}

template <class F>
void each(int64_t *result, int64_t n, const Step &step, F value) {
    int unused = 64 - step.bits;
    if (step.is_signed)
        for (int64_t i = 0; i < n; i++)
            result[i] = int64_t(uint64_t(value(i)) << unused) >> unused;
    else
        for (int64_t i = 0; i < n; i++)
            result[i] = int64_t(uint64_t(value(i)) << unused >> unused);
}

class Body {
public:
    Body(const Machine &machine, const Kernel &kernel, const uint8_t *word, const Nest &nest,
         std::vector<int64_t> &lanes)
        : machine_(machine), kernel_(kernel), word_(word), nest_(nest), lanes_(lanes),
          width_(machine.batch * machine.block_out) {
        most_ = ordered() ? 1 : std::max<int64_t>(1, CHUNK / width_);
        pitch_ = most_ * width_;
        lanes_.resize(kernel.steps * pitch_);
        for (auto &list : at_) list.resize(most_);
        begins_.resize(most_);
    }

    void run(bool reset) {
        for (int s = 0; s < kernel_.uniform; s++) perform(s, most_);
        Walk walk(nest_);
        bool more = true;
        while (more) {
            int64_t count = 0;
            for (; more && count < most_; more = walk.next()) {
                for (int b = 0; b < BASES; b++) at_[b][count] = walk.at[b];
                begins_[count++] = reset && walk.begins();
            }
            for (int s = kernel_.uniform; s < kernel_.steps; s++) perform(s, count);
            switch (machine_.buffer[kernel_.buffer].bits) {
            case -8: write<int8_t, 8>(count); break;
            case -16: write<int16_t, 16>(count); break;
            case -24: write<int32_t, 24>(count); break;
            case -32: write<int32_t, 32>(count); break;
            case -40: write<int64_t, 40>(count); break;
            case -48: write<int64_t, 48>(count); break;
            }
        }
    }

private:
    // Whether an iteration may read what an earlier one wrote.
    bool ordered() const {
        int64_t low, high, first, last;
        nest_.bounds(DST, low, high);
        for (int k = 0; k < kernel_.operands; k++) {
            const Operand &operand = kernel_.operand[k];
            if (operand.buffer != kernel_.buffer) continue;
            nest_.bounds(operand.base, first, last);
            bool apart = last < low || first > high;
            bool own = kernel_.update == ASSIGN && nest_.same(operand.base, DST) && nest_.unique(DST);
            if (!apart && !own) return true;
        }
        return false;
    }

    int64_t *lane(int step) { return lanes_.data() + step * pitch_; }

    void perform(int number, int64_t count) {
        const Step &step = kernel_.step[number];
        int64_t *r = lane(number), n = count * width_;
        const int64_t *a = lane(step.a), *b = lane(step.b), *c = lane(step.c);
        auto set = [&](auto value) { each(r, n, step, value); };
        switch (step.code) {
        case CONST: std::fill(r, r + n, step.value); break;
        case SCALAR: std::fill(r, r + n, cut(scalar(step), step.bits, step.is_signed)); break;
        case READ: read(step, r, count); break;
        case LOOKUP: look_up(step, a, r, count); break;
        case CAST: set([=](int64_t i) { return a[i]; }); break;
        case BOOL: set([=](int64_t i) { return a[i] != 0; }); break;
        case ADD: set([=](int64_t i) { return uint64_t(a[i]) + uint64_t(b[i]); }); break;
        case SUB: set([=](int64_t i) { return uint64_t(a[i]) - uint64_t(b[i]); }); break;
        case MUL: set([=](int64_t i) { return uint64_t(a[i]) * uint64_t(b[i]); }); break;
        case LOW: set([=](int64_t i) { return std::min(a[i], b[i]); }); break;
        case HIGH: set([=](int64_t i) { return std::max(a[i], b[i]); }); break;
        case AND: set([=](int64_t i) { return a[i] & b[i]; }); break;
        case OR: set([=](int64_t i) { return a[i] | b[i]; }); break;
        case XOR: set([=](int64_t i) { return a[i] ^ b[i]; }); break;
        case SHL: set([=](int64_t i) { return shift_left(a[i], b[i]); }); break;
        case SHR: set([=](int64_t i) { return shift_right(a[i], b[i]); }); break;
        case ROUND: set([=](int64_t i) { return round_even(a[i], b[i]); }); break;
        case LT: set([=](int64_t i) { return a[i] < b[i]; }); break;
        case LE: set([=](int64_t i) { return a[i] <= b[i]; }); break;
        case GT: set([=](int64_t i) { return a[i] > b[i]; }); break;
        case GE: set([=](int64_t i) { return a[i] >= b[i]; }); break;
        case EQ: set([=](int64_t i) { return a[i] == b[i]; }); break;
        case NE: set([=](int64_t i) { return a[i] != b[i]; }); break;
        case SELECT: set([=](int64_t i) { return a[i] ? b[i] : c[i]; }); break;
        case ABS: set([=](int64_t i) { return a[i] < 0 ? 0 - uint64_t(a[i]) : a[i]; }); break;
        case SUM_LANES: reduce(step, a, r, n, [](uint64_t x, uint64_t y) { return x + y; }); break;
        case MAX_LANES: reduce(step, a, r, n, [](int64_t x, int64_t y) { return std::max(x, y); }); break;
        case MIN_LANES: reduce(step, a, r, n, [](int64_t x, int64_t y) { return std::min(x, y); }); break;
        }
    }

    int64_t scalar(const Step &step) const {
        return word::get(word_, word::Bits{step.a, step.b, step.c != 0, 0});
    }

    void read(const Step &step, int64_t *r, int64_t count) {
        switch (step.is_signed ? -step.bits : step.bits) {
        case -8: return read_as<int8_t>(step, r, count);
        case 8: return read_as<uint8_t>(step, r, count);
        case -16: return read_as<int16_t>(step, r, count);
        case 16: return read_as<uint16_t>(step, r, count);
        case -24:
        case -32: return read_as<int32_t>(step, r, count);
        case 32: return read_as<uint32_t>(step, r, count);
        case -40:
        case -48: return read_as<int64_t>(step, r, count);
        }
    }

    template <class T>
    void read_as(const Step &step, int64_t *r, int64_t count) {
        const Operand &operand = kernel_.operand[step.value];
        const Buffer &buffer = machine_.buffer[operand.buffer];
        for (int64_t i = 0; i < count; i++) {
            const uint8_t *entry = buffer.data + at_[operand.base][i] * buffer.entry;
            for (int64_t k = 0; k < width_; k++) {
                T value;
                std::memcpy(&value, entry + operand.lanes[k], sizeof value);
                *r++ = value;
            }
        }
    }

    // `a` has a place in the table of the iteration for each lane.
    void look_up(const Step &step, const int64_t *a, int64_t *r, int64_t count) {
        const Operand &operand = kernel_.operand[step.value];
        const Buffer &buffer = machine_.buffer[operand.buffer];
        for (int64_t i = 0; i < count; i++) {
            const uint8_t *table = buffer.data + at_[operand.base][i] * buffer.entry;
            for (int64_t k = 0; k < width_; k++) *r++ = int8_t(table[uint8_t(*a++)]);
        }
    }

    // Every lane of a row gets the values of all of them, folded.
    template <class F>
    void reduce(const Step &step, const int64_t *a, int64_t *r, int64_t n, F fold) {
        for (int64_t row = 0; row < n; row += machine_.block_out) {
            int64_t value = a[row];
            for (int k = 1; k < machine_.block_out; k++) value = fold(value, a[row + k]);
            std::fill(r + row, r + row + machine_.block_out, cut(value, step.bits, step.is_signed));
        }
    }

    template <class T, int BITS>
    void write(int64_t count) {
        const Buffer &buffer = machine_.buffer[kernel_.buffer];
        const int64_t *value = lane(kernel_.steps - 1);
        for (int64_t i = 0; i < count; i++, value += width_) {
            T *entry = reinterpret_cast<T *>(buffer.data + at_[DST][i] * buffer.entry);
            Update update = begins_[i] ? ASSIGN : Update(kernel_.update);
            for (int64_t k = 0; k < width_; k++) entry[k] = updated<T, BITS>(update, entry[k], T(value[k]));
        }
    }

    template <class T, int BITS>
    static T updated(Update update, T old, T value) {
        switch (update) {
        case SUM: return T(cut(uint64_t(old) + uint64_t(value), BITS, true));
        case MAX: return std::max(old, value);
        case MIN: return std::min(old, value);
        default: return value;
        }
    }

    const Machine &machine_;
    const Kernel &kernel_;
    const uint8_t *word_;
    const Nest &nest_;
    std::vector<int64_t> &lanes_;       // of every step, `pitch_` each
    int64_t width_, most_, pitch_;      // lanes of an iteration; iterations and lanes at once
    std::vector<int64_t> at_[BASES];
    std::vector<char> begins_;
};

// ---- block products ----------------------------------------------------------------------------

// Sums of BITS bits, in a T.
template <int IN, class T, int BITS, class X, class W>
void product(const Machine &m, const X *x, const W *w, T *sums, bool begins) {
    const int in = IN ? IN : m.block_in;
    for (int b = 0; b < m.batch; b++, x += in)
        for (int o = 0; o < m.block_out; o++) {
            const W *row = w + o * in;
            using Sum = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
            Sum sum = 0;                // of few bits a product of 16, which is faster
            if constexpr (sizeof(X) + sizeof(W) == 2)
                for (int i = 0; i < in; i++) sum += Sum(int16_t(x[i]) * int16_t(row[i]));
            else
                for (int i = 0; i < in; i++) sum += Sum(x[i]) * Sum(row[i]);
            T &place = sums[b * m.block_out + o];
            Sum total = begins ? sum : Sum(place) + sum;
            place = BITS == 8 * sizeof(T) ? T(total) : T(cut(int64_t(total), BITS, true));
        }
}

template <int IN, class T, int BITS, class X, class W>
void products(const Machine &m, const Kernel &kernel, const Nest &nest, bool reset) {
    const Operand &x = kernel.operand[0], &w = kernel.operand[1];
    const Buffer &left = m.buffer[x.buffer], &right = m.buffer[w.buffer], &acc = m.buffer[m.acc];
    Walk walk(nest);
    do {
        product<IN, T, BITS>(m, reinterpret_cast<X *>(left.data + walk.at[x.base] * left.entry),
                    reinterpret_cast<W *>(right.data + walk.at[w.base] * right.entry),
                    reinterpret_cast<T *>(acc.data + walk.at[DST] * acc.entry),
                    reset && walk.begins());
    } while (walk.next());
}

template <class T, int BITS, class X>
void products_of(const Machine &m, const Kernel &kernel, const Nest &nest, bool reset) {
    switch (m.buffer[kernel.operand[1].buffer].bits) {
    case -8: return products<0, T, BITS, X, int8_t>(m, kernel, nest, reset);
    case 8: return products<0, T, BITS, X, uint8_t>(m, kernel, nest, reset);
    case -16: return products<0, T, BITS, X, int16_t>(m, kernel, nest, reset);
    case 16: return products<0, T, BITS, X, uint16_t>(m, kernel, nest, reset);
    }
}

template <class T, int BITS>
void products_in(const Machine &m, const Kernel &kernel, const Nest &nest, bool reset) {
    switch (m.buffer[kernel.operand[0].buffer].bits) {
    case -8: return products_of<T, BITS, int8_t>(m, kernel, nest, reset);
    case 8: return products_of<T, BITS, uint8_t>(m, kernel, nest, reset);
    case -16: return products_of<T, BITS, int16_t>(m, kernel, nest, reset);
    case 16: return products_of<T, BITS, uint16_t>(m, kernel, nest, reset);
    }
}

template <int IN>
void usual_products(const Machine &m, const Kernel &kernel, const Nest &nest, bool reset) {
    products<IN, int32_t, 32, int8_t, int8_t>(m, kernel, nest, reset);
}

void products(const Machine &m, const Kernel &kernel, const Nest &nest, bool reset) {
    int64_t sums = m.buffer[m.acc].bits;
    if (sums == -32 && m.buffer[kernel.operand[0].buffer].bits == -8
        && m.buffer[kernel.operand[1].buffer].bits == -8)
        switch (m.block_in) {           // the usual case, with the inner loop unrolled
        case 4: return usual_products<4>(m, kernel, nest, reset);
        case 8: return usual_products<8>(m, kernel, nest, reset);
        case 16: return usual_products<16>(m, kernel, nest, reset);
        case 32: return usual_products<32>(m, kernel, nest, reset);
        case 64: return usual_products<64>(m, kernel, nest, reset);
        }
    switch (sums) {
    case -16: return products_in<int16_t, 16>(m, kernel, nest, reset);
    case -24: return products_in<int32_t, 24>(m, kernel, nest, reset);
    case -32: return products_in<int32_t, 32>(m, kernel, nest, reset);
    case -40: return products_in<int64_t, 40>(m, kernel, nest, reset);
    case -48: return products_in<int64_t, 48>(m, kernel, nest, reset);
    }
}

// ---- DMA ---------------------------------------------------------------------------------------

struct DmaLoop {
    int64_t extent, outside, inside, low, high;     // indices outside [low, high) are padding
};

struct Dma {
    bool load;
    int64_t run;
    uint8_t pad[2];             // at even and odd addresses
    int code;                   // a byte of memory becomes 1 << code of the buffer
    DmaLoop loops[word::dma::loops];
    uint8_t *buffer, *memory;

    // Whether all runs are in the buffer and, but for padding, in the memory. `outside` is where
    // iteration (0, 0, 0, 0) would be: with padding that may lie before the memory, modulo 2**32.
    bool within(int64_t inside, int64_t buffer_size, int64_t &outside, int64_t memory_size) const {
        int64_t first = inside, last = inside, low = outside, high = outside;
        bool any = true;
        for (const DmaLoop &loop : loops) {
            int64_t reach = (loop.extent - 1) * loop.inside;
            (reach < 0 ? first : last) += reach;
            low += loop.outside * (loop.outside < 0 ? loop.high - 1 : loop.low);
            high += loop.outside * (loop.outside < 0 ? loop.low : loop.high - 1);
            any &= loop.low < loop.high;
        }
        int64_t wrapped = int64_t(uint32_t(low)) - low;
        outside += wrapped;
        return first >= 0 && last + run <= buffer_size
               && (!any || high + wrapped + run <= memory_size);
    }

    void unpack(uint8_t *to, const uint8_t *from, int64_t inside) const {
        int bits = 8 >> code;
        for (int64_t i = 0; i < run; i++)
            for (int low = 0; low < 8; low += bits)
                *to++ = int8_t((from ? from[i] : pad[inside + i & 1]) << (8 - bits - low)) >> (8 - bits);
    }

    void move(int level, int64_t inside, int64_t outside, bool padding) const {
        if (level == word::dma::loops) {
            if (code)
                unpack(buffer + (inside << code), padding ? nullptr : memory + outside, inside);
            else if (!load) std::memcpy(memory + outside, buffer + inside, run);
            else if (padding)
                for (int64_t i = inside; i < inside + run; i++) buffer[i] = pad[i & 1];
            else std::memcpy(buffer + inside, memory + outside, run);
            return;
        }
        const DmaLoop &loop = loops[level];
        for (int64_t i = 0; i < loop.extent; i++)
            move(level + 1, inside + i * loop.inside, outside + i * loop.outside,
                 padding || i < loop.low || i >= loop.high);
    }
};

// ---- instructions ------------------------------------------------------------------------------

class Execution {
public:
    Execution(const Machine &machine, Program &program) : m_(machine), p_(program) {}

    Outcome run() {
        for (; p_.position < p_.count; p_.position++) {
            std::memcpy(word_, p_.words + p_.position * word::BYTES, word::BYTES);
            int unit = m_.unit[word_[0]];
            if (unit < 0) return ODD;
            if (unit == UNITS) return finish();
            if (!tokens(unit)) return ODD;
            Outcome outcome = m_.dma[unit] ? move(unit) : compute(word_[0]);
            if (outcome != DONE) return outcome;
        }
        return ODD;
    }

private:
    Outcome finish() const {
        return std::any_of(p_.counters, p_.counters + UNITS * UNITS, [](int c) { return c; })
                   ? ODD : DONE;
    }

    // Take and give in one go: in stream order nothing happens in between.
    bool tokens(int unit) {
        int waits = word_[1], signals = word_[2];
        for (int other = 0; other < UNITS; other++) {
            int32_t &counter = p_.counters[other * UNITS + unit];
            if (waits >> other & 1 && counter-- == 0) return false;
        }
        for (int other = 0; other < UNITS; other++) {
            int32_t &counter = p_.counters[unit * UNITS + other];
            if (signals >> other & 1 && counter++ == m_.tokens) return false;
        }
        return true;
    }

    Outcome compute(int opcode) {
        using namespace word;
        auto selectors = get(word_, word::vector::a_source) | get(word_, word::vector::b_source) << 1
                         | get(word_, word::vector::destination) << 3;
        const Kernel &kernel = *m_.kernel[opcode * SELECTORS + selectors];
        if (kernel.form == REFUSED) return ODD;
        if (kernel.form == FOREIGN) return HOST;
        Nest nest = compute_nest(kernel.loops);
        if (!in_range(kernel, nest)) return ODD;
        bool reset = kernel.update != ASSIGN && get(word_, gemm::reset);
        if (kernel.form == PRODUCT) products(m_, kernel, nest, reset);
        else Body(m_, kernel, word_, nest, lanes_).run(reset);
        return DONE;
    }

    // The formats of gemm and vector have bases, loops and banks in the same places.
    Nest compute_nest(int loops) const {
        using namespace word;
        static_assert(gemm::base_dst.offset == word::vector::base_dst.offset
                      && gemm::loops_extent.offset == word::vector::loops_extent.offset
                      && gemm::loops_pitch == word::vector::loops_pitch
                      && gemm::banks.offset == word::vector::banks.offset
                      && gemm::reset.offset == word::vector::reset.offset);
        constexpr Bits base[] = {gemm::base_dst, gemm::base_a, gemm::base_b};
        constexpr Bits stride[] = {gemm::loops_dst, gemm::loops_a, gemm::loops_b};
        Nest nest;
        for (int b = 0; b < C; b++) nest.base[b] = get(word_, base[b]);
        nest.base[C] = get(word_, word::vector::c);         // no loop moves it
        for (int k = 0; k < loops; k++) {
            Loop loop = {get(word_, gemm::loops_extent, k * gemm::loops_pitch), {}};
            for (int b = 0; b < C; b++)
                loop.stride[b] = int16_t(get(word_, stride[b], k * gemm::loops_pitch));
            if (loop.extent > 1) nest.loops[nest.depth++] = loop;
        }
        return nest;
    }

    bool in_range(const Kernel &kernel, const Nest &nest) const {
        bool good = reaches(kernel.buffer, DST, nest);
        for (int k = 0; good && k < kernel.operands; k++)
            good = reaches(kernel.operand[k].buffer, kernel.operand[k].base, nest);
        return good;
    }

    // Whether all entries are in a buffer, and in banks that the instruction names.
    bool reaches(int number, int base, const Nest &nest) const {
        const Buffer &buffer = m_.buffer[number];
        int64_t depth = buffer.size / buffer.entry, low, high;
        nest.bounds(base, low, high);
        if (low < 0 || high >= depth) return false;
        if (number != m_.acc) return true;
        int64_t banks = word::get(word_, word::gemm::banks);
        return banks >> (low / (depth / 2)) & banks >> (high / (depth / 2)) & 1;
    }

    Outcome move(int unit) {
        using namespace word;
        int64_t number = get(word_, Bits{m_.code_offset, m_.code_width, false, 0});
        if (!(m_.dma[unit] >> number & 1)) return ODD;
        const Buffer &buffer = m_.buffer[number];
        bool load = unit != m_.store;
        int code = load && m_.weight_codes ? int(get(word_, dma::bits)) : 0;
        if (code && !(number == m_.wgt && m_.weight_codes >> code & 1)) return ODD;
        auto low = uint8_t(get(word_, dma::pad_value));
        auto high = m_.pads_high ? uint8_t(get(word_, dma::pad_high)) : low;
        Dma job = {load, get(word_, dma::run), {low, high}, code, {}, buffer.data, p_.memory};
        for (int k = 0; k < dma::loops; k++) job.loops[k] = dma_loop(k, job.load);
        int64_t inside = get(word_, dma::address);
        int64_t outside = p_.base[get(word_, dma::base)] + get(word_, dma::dram);
        if (!job.within(inside, buffer.size >> code, outside, p_.size)) return ODD;
        job.move(0, inside, outside, false);
        return DONE;
    }

    DmaLoop dma_loop(int k, bool load) const {
        using namespace word;
        auto field = [&](Bits bits) { return get(word_, bits, k * dma::loops_pitch); };
        DmaLoop loop = {field(dma::loops_extent), field(dma::loops_dram),
                        cut(field(dma::loops_buffer), dma::loops_buffer.width, true), 0, 0};
        loop.low = load ? field(dma::loops_before) : 0;
        loop.high = loop.extent - (load ? field(dma::loops_after) : 0);
        return loop;
    }

    const Machine &m_;
    Program &p_;
    uint8_t word_[word::BYTES + 8] = {};
    std::vector<int64_t> lanes_;
};

}  // namespace

// Execute from `position` on. DONE: at FINISH. HOST: the instruction at `position` is FOREIGN; it
// has taken and given its tokens. ODD: something there is not as in a plain, legal program.
extern "C" int32_t lockstep_values(const Machine *machine, Program *program) {
    return Execution(*machine, *program).run();
}
