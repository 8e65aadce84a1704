// What divides the addresses of a stream, and how far they reach, for both scans; and who wrote what
// another stream reads.

#include <algorithm>
#include <vector>

#include "sets.h"

using namespace lockstep;

static int64_t gcd(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

// Lowers `granule` and raises `stop` of each memory to what the events of a batch need.
extern "C" void measure(const Batch *batch, int64_t *granule, int64_t *stop) {
    for (int64_t event = 0; event < batch->count; event++)
        for (int32_t k = 0; k < batch->sets[event]; k++) {
            const Set &set = batch->set[batch->first[event] + k];
            Runs runs(set, batch->loop);
            if (!runs.length) continue;
            int64_t divisor = granule[set.memory];
            if (divisor != 1) {
                divisor = gcd(gcd(divisor, runs.start), runs.length);
                for (int i = 0; i < runs.loops; i++) divisor = gcd(divisor, runs.loop[i].stride);
                granule[set.memory] = divisor;
            }
            if (runs.stop() > stop[set.memory]) stop[set.memory] = runs.stop();
        }
}

// Who wrote each address last, by numbers of one's own.
class Writers {
public:
    Writers(int memories, const int64_t *granule, const int64_t *stop)
        : granule_(granule, granule + memories), last_(memories) {
        for (int memory = 0; memory < memories; memory++)
            last_[memory].assign(stop[memory] / granule[memory] + 1, -1);
    }

    // Notes what the events write; one with a negative number is left out.
    void note(const Batch &batch, const int32_t *number) {
        for (int64_t event = 0; event < batch.count; event++)
            for (int32_t k = 0; k < batch.sets[event] && number[event] >= 0; k++) {
                const Set &set = batch.set[batch.first[event] + k];
                std::vector<int32_t> &table = last_[set.memory];
                if (set.write)
                    Runs(set, batch.loop).each(granule_[set.memory], [&](int64_t first, int64_t past) {
                        std::fill(table.begin() + first, table.begin() + past, number[event]);
                    });
            }
    }

    // The highest number behind what each event reads; -1: nobody wrote it.
    void find(const Batch &batch, int32_t *found) const {
        for (int64_t event = 0; event < batch.count; event++) {
            int32_t latest = -1;
            for (int32_t k = 0; k < batch.sets[event]; k++) {
                const Set &set = batch.set[batch.first[event] + k];
                const std::vector<int32_t> &table = last_[set.memory];
                if (!set.write)
                    Runs(set, batch.loop).each(granule_[set.memory], [&](int64_t first, int64_t past) {
                        for (int64_t at = first; at < past; at++)
                            latest = std::max(latest, table[at]);
                    });
            }
            found[event] = latest;
        }
    }

private:
    std::vector<int64_t> granule_;
    std::vector<std::vector<int32_t>> last_;
};

extern "C" {

Writers *writers_new(int memories, const int64_t *granule, const int64_t *stop) {
    return new Writers(memories, granule, stop);
}
void writers_note(Writers *self, const Batch *batch, const int32_t *number) {
    self->note(*batch, number);
}
void writers_find(const Writers *self, const Batch *batch, int32_t *found) {
    self->find(*batch, found);
}
void writers_free(Writers *self) { delete self; }

}  // extern "C"
