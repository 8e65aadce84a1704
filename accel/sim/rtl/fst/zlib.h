// What Verilator's writer of FST needs of zlib, so that a compiler is all it takes to build it: the
// format, without compression. The writer keeps what is smaller uncompressed as it is.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

using uLong = unsigned long;
using uLongf = unsigned long;
using Bytef = unsigned char;
constexpr int Z_OK = 0;

namespace lockstep_zlib {

constexpr uLong BLOCK = 65535;

inline uint32_t adler32(const Bytef *bytes, uLong size) {
    uint32_t low = 1, high = 0;
    for (uLong at = 0; at < size; at++) {
        low = (low + bytes[at]) % 65521;
        high = (high + low) % 65521;
    }
    return high << 16 | low;
}

}  // namespace lockstep_zlib

inline uLong compressBound(uLong size) { return size + (size / lockstep_zlib::BLOCK + 1) * 5 + 6; }

inline int compress2(Bytef *to, uLongf *room, const Bytef *from, uLong size, int) {
    Bytef *out = to;
    *out++ = 0x78;
    *out++ = 0x01;
    uLong at = 0;
    do {
        uLong count = std::min(lockstep_zlib::BLOCK, size - at);
        *out++ = at + count == size;        // the last block
        for (uLong length : {count, ~count}) {
            *out++ = Bytef(length);
            *out++ = Bytef(length >> 8);
        }
        std::memcpy(out, from + at, count);
        out += count;
        at += count;
    } while (at < size);
    uint32_t sum = lockstep_zlib::adler32(from, size);
    for (int shift = 24; shift >= 0; shift -= 8) *out++ = Bytef(sum >> shift);
    *room = uLong(out - to);
    return Z_OK;
}
