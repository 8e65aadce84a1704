// Insertion of tokens; compiler/latency_hiding/tokens.py says how it works.

#include <algorithm>
#include <vector>

#include "sets.h"

using namespace lockstep;

namespace {

struct Token {
    int64_t signal, wait;       // positions in the stream
};

class Insertion {
public:
    Insertion(int units, int capacity, int memories, const int64_t *granule, const int64_t *stop)
        : units_(units), capacity_(capacity), granule_(granule, granule + memories),
          size_(memories), last_(memories * 2 * units), pairs_(units * units), streams_(units) {
        for (int memory = 0; memory < memories; memory++)
            size_[memory] = stop[memory] / granule[memory];
    }

    void take(const Batch &batch) {
        for (int64_t event = 0; event < batch.count; event++) {
            const Set *set = batch.set + batch.first[event];
            take(batch.unit[event], set, batch.sets[event], batch.loop);
        }
    }

    void collect(uint32_t *waits, uint32_t *signals) const {
        for (int producer = 0; producer < units_; producer++)
            for (int consumer = 0; consumer < units_; consumer++)
                for (const Token &token : pairs_[producer * units_ + consumer]) {
                    signals[token.signal] |= 1u << consumer;
                    waits[token.wait] |= 1u << producer;
                }
    }

private:
    // The last event of a unit, by its number there, that touched each address; empty: none did.
    std::vector<int32_t> &table(int memory, bool write, int unit) {
        return last_[(memory * 2 + write) * units_ + unit];
    }

    void take(int own, const Set *set, int sets, const SetLoop *loop) {
        needed_.assign(units_, 0);
        for (int k = 0; k < sets; k++) {
            Runs runs(set[k], loop);
            for (int write = 1; write >= !set[k].write; write--)
                for (int unit = 0; unit < units_; unit++) {
                    if (unit == own) continue;
                    const std::vector<int32_t> &known = table(set[k].memory, write, unit);
                    if (known.empty()) continue;
                    int32_t latest = needed_[unit];
                    runs.each(granule_[set[k].memory], [&](int64_t first, int64_t past) {
                        for (int64_t at = first; at < past; at++)
                            latest = std::max(latest, known[at]);
                    });
                    needed_[unit] = latest;
                }
        }
        order(own);
        int32_t number = int32_t(streams_[own].size());
        for (int k = 0; k < sets; k++) {
            std::vector<int32_t> &known = table(set[k].memory, set[k].write, own);
            if (known.empty()) known.resize(size_[set[k].memory]);
            Runs(set[k], loop).each(granule_[set[k].memory], [&](int64_t first, int64_t past) {
                std::fill(known.begin() + first, known.begin() + past, number);
            });
        }
    }

    // Gives the next event of a unit the tokens that it needs.
    void order(int own) {
        int64_t position = count_++;
        clock_.assign(units_, 0);
        if (!streams_[own].empty()) {
            const int32_t *before = &finished_[streams_[own].back() * units_];
            std::copy(before, before + units_, clock_.begin());
        }
        producers_.clear();
        for (int unit = 0; unit < units_; unit++)
            if (needed_[unit]) producers_.push_back({streams_[unit][needed_[unit] - 1], unit});
        std::sort(producers_.begin(), producers_.end(),
                  [](const Producer &a, const Producer &b) { return a.position > b.position; });
        for (const Producer &producer : producers_)
            if (needed_[producer.unit] > clock_[producer.unit]) {
                add(pairs_[producer.unit * units_ + own], producer.position, position);
                const int32_t *theirs = &finished_[producer.position * units_];
                for (int unit = 0; unit < units_; unit++)
                    clock_[unit] = std::max(clock_[unit], theirs[unit]);
            }
        streams_[own].push_back(position);
        clock_[own] = int32_t(streams_[own].size());
        finished_.insert(finished_.end(), clock_.begin(), clock_.end());
    }

    // Where the counter would be full at `signal`, the latest wait, which then still lies ahead, is
    // made to wait for `signal` instead of its own.
    void add(std::vector<Token> &tokens, int64_t signal, int64_t wait) const {
        if (int64_t(tokens.size()) >= capacity_ && tokens[tokens.size() - capacity_].wait > signal)
            tokens.back().signal = signal;
        else
            tokens.push_back({signal, wait});
    }

    struct Producer {
        int64_t position;
        int unit;
    };

    int units_;
    int64_t capacity_, count_ = 0;
    std::vector<int64_t> granule_, size_;
    std::vector<std::vector<int32_t>> last_;
    std::vector<std::vector<Token>> pairs_;
    std::vector<std::vector<int64_t>> streams_;     // positions of a unit's events
    std::vector<int32_t> finished_;                 // for each event a clock, when it has finished
    std::vector<int32_t> needed_, clock_;
    std::vector<Producer> producers_;
};

}  // namespace

extern "C" {

Insertion *insertion_new(int units, int capacity, int memories, const int64_t *granule,
                         const int64_t *stop) {
    return new Insertion(units, capacity, memories, granule, stop);
}
void insertion_take(Insertion *self, const Batch *batch) { self->take(*batch); }
void insertion_collect(const Insertion *self, uint32_t *waits, uint32_t *signals) {
    self->collect(waits, signals);
}
void insertion_free(Insertion *self) { delete self; }

}  // extern "C"
