// What Verilator's writer of FST needs of lz4, so that a compiler is all it takes to build it: the
// block format, by the first match that a table of four-byte sequences has.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

inline int LZ4_compressBound(int size) { return size + size / 255 + 16; }

namespace lockstep_lz4 {

constexpr int BITS = 12;            // of the table
constexpr int FARTHEST = 65535;
constexpr int LEAST = 4;            // bytes of a match
constexpr int LAST_START = 12;      // no match begins in so many last bytes,
constexpr int LAST_LITERALS = 5;    // and none ends in these

inline uint32_t four(const uint8_t *bytes) {
    uint32_t value;
    std::memcpy(&value, bytes, 4);
    return value;
}

class Writer {
public:
    Writer(const uint8_t *in, uint8_t *out) : in_(in), out_(out) {}

    uint8_t *end() const { return out_; }

    // Literals from `begin` on, then a match; distance 0: none.
    void sequence(int begin, int literals, int distance, int length) {
        int more = distance ? length - LEAST : 0;
        *out_++ = uint8_t(std::min(literals, 15) << 4 | std::min(more, 15));
        rest(literals);
        std::memcpy(out_, in_ + begin, literals);
        out_ += literals;
        if (!distance) return;
        *out_++ = uint8_t(distance);
        *out_++ = uint8_t(distance >> 8);
        rest(more);
    }

private:
    void rest(int count) {
        if (count < 15) return;
        for (count -= 15; count >= 255; count -= 255) *out_++ = 255;
        *out_++ = uint8_t(count);
    }

    const uint8_t *in_;
    uint8_t *out_;
};

}  // namespace lockstep_lz4

inline int LZ4_compress_default(const char *from, char *to, int size, int) {
    using namespace lockstep_lz4;
    const auto *in = reinterpret_cast<const uint8_t *>(from);
    auto *out = reinterpret_cast<uint8_t *>(to);
    std::vector<int> seen(1 << BITS, -1);
    Writer writer(in, out);
    int begin = 0;
    for (int at = 0; at + LAST_START <= size;) {
        int &place = seen[four(in + at) * 2654435761u >> (32 - BITS)];
        int before = place;
        place = at;
        if (before < 0 || at - before > FARTHEST || four(in + before) != four(in + at)) {
            at++;
            continue;
        }
        int length = LEAST;
        while (at + length < size - LAST_LITERALS && in[before + length] == in[at + length])
            length++;
        writer.sequence(begin, at - begin, at - before, length);
        begin = at += length;
    }
    writer.sequence(begin, size - begin, 0, 0);
    return int(writer.end() - out);
}
