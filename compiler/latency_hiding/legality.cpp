// The proof that a stream is legal; compiler/latency_hiding/legality.py says what it proves. It
// shares the address sets with the insertion of tokens, and no reasoning.

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "sets.h"

using namespace lockstep;

namespace {

constexpr int32_t NEVER = 0, INITIAL = 1, FIRST = 2;    // marks; event i marks with FIRST + i

enum Kind { EMPTY, FULL_COUNTER, LEFT, UNORDERED, UNWRITTEN };

struct Range {
    int64_t start, stop;
};

struct Violation {
    int64_t later, earlier, ranges, range;      // range: the first of its ranges
    int32_t kind, source, target, memory, wrote, writes, count, unused;
};

using Clock = std::vector<int32_t>;

class Proof {
public:
    Proof(int units, int memories, const int64_t *granule, const int64_t *stop, int64_t limit,
          int64_t capacity)
        : units_(units), limit_(limit), capacity_(capacity), granule_(granule, granule + memories), size_(memories),
          written_(memories), read_(memories * units), clock_(units, Clock(units, INITIAL)),
          counters_(units * units) {
        for (int memory = 0; memory < memories; memory++)
            size_[memory] = stop[memory] / granule[memory];
    }

    // What memory holds at the start; beyond what the stream touches nobody asks.
    void holds(int memory, int64_t start, int64_t stop) {
        std::vector<int32_t> &table = writes(memory);
        start = std::min(start / granule_[memory], size_[memory]);
        stop = std::min(stop / granule_[memory], size_[memory]);
        std::fill(table.begin() + start, table.begin() + std::max(start, stop), INITIAL);
    }

    // False once enough is found.
    bool take(const Batch &batch, const uint32_t *waits, const uint32_t *signals) {
        for (int64_t event = 0; event < batch.count && !enough(); event++) {
            int unit = batch.unit[event];
            unit_of_.push_back(uint8_t(unit));
            wait(unit, waits[event]);
            clock_[unit][unit] = FIRST + int32_t(position_);    // its own order holds anyway
            touch(unit, batch.set + batch.first[event], batch.sets[event], batch.loop);
            signal(unit, signals[event]);
            position_++;
        }
        return !enough();
    }

    void end() {
        for (int pair : used_) {
            std::deque<Given> &left = counters_[pair];
            if (!left.empty() && !enough()) {
                Violation &one = found(LEFT, left.front().position);
                one.source = pair / units_, one.target = pair % units_;
                one.count = int32_t(left.size());
            }
        }
    }

    std::vector<Violation> violations;
    std::vector<Range> ranges;

private:
    struct Given {
        int64_t position;
        Clock clock;
    };
    // What one event touches out of order, gathered by the earlier event and the memory.
    struct Conflict {
        int64_t earlier;
        int memory;
        bool wrote, reads;
        std::vector<int64_t> addresses;
    };

    bool enough() const { return limit_ >= 0 && int64_t(violations.size()) >= limit_; }

    Violation &found(Kind kind, int64_t later) {
        violations.push_back({later, -1, 0, int64_t(ranges.size()), kind, -1, -1, -1, 0, 0, 0, 0});
        return violations.back();
    }

    std::vector<int32_t> &writes(int memory) {
        if (written_[memory].empty()) written_[memory].resize(size_[memory] + 1);
        return written_[memory];
    }

    void wait(int unit, uint32_t mask) {
        for (int source = 0; source < units_; source++) {
            if (!(mask >> source & 1)) continue;
            std::deque<Given> &counter = counters_[source * units_ + unit];
            if (counter.empty()) {
                Violation &one = found(EMPTY, position_);
                one.source = source, one.target = unit;
                continue;
            }
            Clock &mine = clock_[unit];
            for (int other = 0; other < units_; other++)
                mine[other] = std::max(mine[other], counter.front().clock[other]);
            counter.pop_front();
        }
    }

    void signal(int unit, uint32_t mask) {
        for (int target = 0; target < units_; target++) {
            if (!(mask >> target & 1)) continue;
            int pair = unit * units_ + target;
            if (int64_t(counters_[pair].size()) >= capacity_) {
                Violation &one = found(FULL_COUNTER, position_);
                one.source = unit, one.target = target;
            }
            if (std::find(used_.begin(), used_.end(), pair) == used_.end()) used_.push_back(pair);
            counters_[pair].push_back({position_, clock_[unit]});
        }
    }

    void touch(int unit, const Set *set, int sets, const SetLoop *loop) {
        conflicts_.clear();
        for (int k = 0; k < sets; k++) access(unit, set[k], Runs(set[k], loop));
        for (Conflict &conflict : conflicts_) {
            Violation &one = found(UNORDERED, position_);
            one.earlier = conflict.earlier, one.memory = conflict.memory;
            one.wrote = conflict.wrote, one.writes = !conflict.reads;
            add_ranges(one, conflict.addresses);
        }
        for (int write = 0; write < 2; write++)             // what it reads, it reads first
            for (int k = 0; k < sets; k++)
                if (set[k].write == write) mark(unit, set[k], Runs(set[k], loop));
    }

    void mark(int unit, const Set &set, const Runs &runs) {
        std::vector<int32_t> &table = set.write ? writes(set.memory)
                                                : read_[set.memory * units_ + unit];
        if (table.empty()) table.resize(size_[set.memory] + 1);
        int32_t own = FIRST + int32_t(position_);
        runs.each(granule_[set.memory], [&](int64_t first, int64_t past) {
            std::fill(table.begin() + first, table.begin() + past, own);
        });
    }

    void access(int unit, const Set &set, const Runs &runs) {
        const std::vector<int32_t> &table = writes(set.memory);
        const Clock &clock = clock_[unit];
        int32_t known = *std::min_element(clock.begin(), clock.end());
        std::vector<int64_t> unwritten;
        std::vector<Mark> late;
        runs.each(granule_[set.memory], [&](int64_t first, int64_t past) {
            int32_t low = table[first], high = low;
            for (int64_t at = first; at < past; at++) {
                low = std::min(low, table[at]);
                high = std::max(high, table[at]);
            }
            if (!set.write && low == NEVER)
                for (int64_t at = first; at < past; at++)
                    if (table[at] == NEVER) unwritten.push_back(at);
            if (high <= known) return;
            int32_t before = NEVER;
            bool is_late = false;
            for (int64_t at = first; at < past; at++) {
                int32_t one = table[at];
                if (one != before) {
                    before = one;
                    is_late = one >= FIRST && one > clock[unit_of_[one - FIRST]];
                }
                if (is_late) late.push_back({one, at});
            }
        });
        if (!unwritten.empty()) {
            Violation &one = found(UNWRITTEN, position_);
            one.memory = set.memory;
            add_ranges(one, unwritten);
        }
        report(set, late, true);
        for (int reader = 0; set.write && reader < units_; reader++) {
            const std::vector<int32_t> &marks = read_[set.memory * units_ + reader];
            if (reader == unit || marks.empty()) continue;
            late.clear();
            runs.each(granule_[set.memory], [&](int64_t first, int64_t past) {
                int32_t high = NEVER;
                for (int64_t at = first; at < past; at++) high = std::max(high, marks[at]);
                for (int64_t at = first; high > clock[reader] && at < past; at++)
                    if (marks[at] > clock[reader]) late.push_back({marks[at], at});
            });
            report(set, late, false);
        }
    }

    struct Mark {
        int32_t mark;
        int64_t address;
    };

    // Keeps, for each other unit, its latest event that is not known to have finished: what orders
    // that one orders the unit's earlier ones.
    void report(const Set &set, const std::vector<Mark> &late, bool wrote) {
        if (late.empty()) return;
        std::vector<int32_t> latest(units_, NEVER);
        for (const Mark &one : late) {
            int32_t &known = latest[unit_of_[one.mark - FIRST]];
            known = std::max(known, one.mark);
        }
        for (int unit = 0; unit < units_; unit++) {
            if (latest[unit] == NEVER) continue;
            Conflict &conflict = conflict_of(latest[unit] - FIRST, set.memory);
            conflict.wrote |= wrote;
            conflict.reads |= !set.write;
            for (const Mark &one : late)
                if (one.mark == latest[unit]) conflict.addresses.push_back(one.address);
        }
    }

    Conflict &conflict_of(int64_t earlier, int memory) {
        for (Conflict &one : conflicts_)
            if (one.earlier == earlier && one.memory == memory) return one;
        conflicts_.push_back({earlier, memory, false, false, {}});
        return conflicts_.back();
    }

    void add_ranges(Violation &violation, std::vector<int64_t> &addresses) {
        std::sort(addresses.begin(), addresses.end());
        int64_t granule = granule_[violation.memory];
        size_t begin = ranges.size();
        for (int64_t at : addresses)
            if (ranges.size() > begin && ranges.back().stop >= at * granule)
                ranges.back().stop = (at + 1) * granule;
            else
                ranges.push_back({at * granule, (at + 1) * granule});
        violation.range = int64_t(begin);
        violation.ranges = int64_t(ranges.size() - begin);
    }

    int units_;
    int64_t limit_, capacity_, position_ = 0;      // limit: negative for none
    std::vector<int64_t> granule_, size_;
    std::vector<std::vector<int32_t>> written_, read_;      // marks, by memory; by memory and unit
    std::vector<Clock> clock_;      // by unit: the last event of every unit known to have finished
    std::vector<std::deque<Given>> counters_;
    std::vector<int> used_;         // pairs of units, in the order of their first signals
    std::vector<uint8_t> unit_of_;  // by event
    std::vector<Conflict> conflicts_;
};

}  // namespace

extern "C" {

Proof *proof_new(int units, int memories, const int64_t *granule, const int64_t *stop,
                 int64_t limit, int64_t capacity) {
    return new Proof(units, memories, granule, stop, limit, capacity);
}
void proof_holds(Proof *self, int memory, int64_t start, int64_t stop) {
    self->holds(memory, start, stop);
}
int proof_take(Proof *self, const Batch *batch, const uint32_t *waits, const uint32_t *signals) {
    return self->take(*batch, waits, signals);
}
void proof_end(Proof *self) { self->end(); }
int64_t proof_count(const Proof *self) { return int64_t(self->violations.size()); }
const Violation *proof_violations(const Proof *self) { return self->violations.data(); }
const Range *proof_ranges(const Proof *self) { return self->ranges.data(); }
void proof_free(Proof *self) { delete self; }

}  // extern "C"
