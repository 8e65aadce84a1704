// Events and the address sets that they touch, as `compiler/latency_hiding/arrays.py` lays them out.
//
// A set is {start + sum of index * stride + [0, length)} over its loops. Addresses are divided by
// the granule of their memory, which divides every start, length and stride of the stream.

#pragma once

#include <cstdint>
#include <cstring>

namespace lockstep {

constexpr int MOST_LOOPS = 8;

struct Set {
    int64_t start, length;
    int32_t loop, loops;            // the first of its loops, and how many there are
    int32_t memory, write;
};

struct SetLoop {
    int64_t extent, stride;
};

struct Batch {
    int64_t count;
    const uint8_t *unit;
    const int64_t *first;           // of an event: its first set, and how many there are
    const int32_t *sets;
    const Set *set;
    const SetLoop *loop;
};

// A set in its shortest form: strides positive and ascending, loops that lie together one run.
struct Runs {
    int64_t start, length;
    int loops;
    SetLoop loop[MOST_LOOPS];

    Runs(const Set &set, const SetLoop *all) : start(set.start), length(set.length), loops(0) {
        for (int k = 0; k < set.loops; k++) {
            SetLoop one = all[set.loop + k];
            if (one.extent == 0) {
                length = 0;
                loops = 0;
                return;
            }
            if (one.extent == 1 || one.stride == 0) continue;
            if (one.stride < 0) {
                start += one.stride * (one.extent - 1);
                one.stride = -one.stride;
            }
            int at = loops++;
            for (; at > 0 && loop[at - 1].stride > one.stride; at--) loop[at] = loop[at - 1];
            loop[at] = one;
        }
        int kept = 0;
        for (int k = 0; k < loops; k++) {
            if (kept == 0 && loop[k].stride <= length)
                length += loop[k].stride * (loop[k].extent - 1);
            else if (kept && loop[k].stride == loop[kept - 1].stride * loop[kept - 1].extent)
                loop[kept - 1].extent *= loop[k].extent;
            else
                loop[kept++] = loop[k];
        }
        loops = kept;
    }

    int64_t stop() const {
        int64_t last = start + length;
        for (int k = 0; k < loops; k++) last += loop[k].stride * (loop[k].extent - 1);
        return length ? last : 0;
    }

    // Calls f(first, past) for every run of addresses, in granules.
    template <typename F> void each(int64_t granule, F &&f) const {
        if (length == 0) return;
        int64_t index[MOST_LOOPS] = {}, at = start / granule, size = length / granule;
        int64_t step[MOST_LOOPS];
        for (int k = 0; k < loops; k++) step[k] = loop[k].stride / granule;
        for (;;) {
            f(at, at + size);
            int k = 0;
            for (; k < loops; k++) {
                if (++index[k] < loop[k].extent) {
                    at += step[k];
                    break;
                }
                at -= step[k] * (loop[k].extent - 1);
                index[k] = 0;
            }
            if (k == loops) return;
        }
    }
};

}  // namespace lockstep
