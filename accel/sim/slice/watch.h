// What every unit does in each cycle, and with which instruction: rows as those of the cycle
// simulator (accel/sim/timed/cycle_board.h), made of what a watched core shows.
//
// Units start and retire their instructions in the order of the stream, so events tell which one is
// the next, the latest that has started, and the oldest that has not retired.

#pragma once

#include <deque>
#include <vector>

#include "watch_lists.h"

namespace lockstep {

class Watch {
public:
    // `units`: of each instruction, by its place among units; others for what none executes.
    Watch(const uint8_t *units, uint32_t count, uint64_t max_cycles)
        : units_(units, units + count), max_cycles_(max_cycles) {
        for (uint32_t index = 0; index < count; index++)
            if (units[index] < watch::units) unit_[units[index]].stream.push_back(index);
    }

    // ---- of a cycle, in this order -------------------------------------------------------------

    void started(uint64_t index) {
        if (Unit *unit = of(index)) unit->next++, unit->starts = true;
    }
    void retired(uint64_t index) {
        if (Unit *unit = of(index)) unit->retires = true;
    }
    // `activity`, `seen`: as Core.{unit}_activity and Core.{unit}_watched are in this cycle.
    void look(uint64_t now, unsigned number, uint64_t activity, uint64_t seen) {
        Unit &unit = unit_[number];
        uint32_t what = activity ? __builtin_ctzll(activity) : watch::command;
        does(unit, now, what, instruction(unit, watch::kinds[number], what, seen));
        if (seen >> watch::leaves & 1 && !unit.beats.empty()) unit.beats.pop_front();
        if (seen >> watch::steps & 1) {
            if (seen >> watch::forms & 1) unit.beats.push_back(unit.moved);
            unit.moved += seen >> watch::ends & 1;
        }
        unit.oldest += unit.retires;
        unit.starts = unit.retires = false;
    }

    // Counters show a cycle some cycles later: the last ones of a run count as `command`.
    void finish(uint64_t cycles) {
        uint64_t late = watch::counter_cycles - 1;
        for (Unit &unit : unit_) {
            if (cycles <= watch::begin_cycles + late) continue;
            if (unit.what != watch::command) {
                close(unit, cycles - late);
                unit.what = watch::command;
                unit.index = -1;
                unit.since = cycles - late;
            }
            close(unit, cycles);
        }
    }

    // First cycle, activity and instruction of each row.
    const std::vector<int64_t> &rows(unsigned number) const { return unit_[number].rows; }

private:
    struct Unit {
        std::vector<uint32_t> stream;               // its instructions
        size_t next = 0, oldest = 0, moved = 0;     // places in `stream`; `moved`: of the next step
        std::deque<size_t> beats;                   // on their way to memory
        bool starts = false, retires = false;       // in this cycle
        uint32_t what = watch::command;
        int64_t index = -1;
        uint64_t since = 0;
        std::vector<int64_t> rows;

        int64_t at(size_t place) const { return place < stream.size() ? stream[place] : -1; }
    };

    Unit *of(uint64_t index) {
        return index < units_.size() && units_[index] < watch::units ? &unit_[units_[index]] : nullptr;
    }

    // The instruction that an activity is about.
    int64_t instruction(const Unit &unit, watch::Kind kind, uint32_t what, uint64_t seen) const {
        int64_t next = unit.at(unit.next), oldest = unit.at(unit.oldest);
        int64_t latest = unit.next ? unit.at(unit.next - 1) : -1;
        switch (what) {
        case watch::command:
            return -1;
        case watch::busy:
            if (seen >> watch::steps & 1) return unit.at(unit.moved);
            if (seen >> watch::leaves & 1) return unit.beats.empty() ? -1 : unit.at(unit.beats.front());
            if (kind == watch::moves) return unit.starts ? latest : next;
            if (!(seen >> watch::working & 1)) return next;
            return kind == watch::streams ? oldest : latest;
        case watch::hazard:
            return latest;
        case watch::signal:
            return kind != watch::moves && seen >> watch::waiting & 1 ? next : oldest;
        case watch::memory:
            return unit.oldest < unit.next ? oldest : next;
        default:                                    // tokens of a unit, or a bank
            return next;
        }
    }

    void does(Unit &unit, uint64_t now, uint32_t what, int64_t index) {
        if (unit.what == what && unit.index == index) return;
        if (now + watch::counter_cycles > max_cycles_) return;  // after what counters show last
        close(unit, now);
        unit.what = what;
        unit.index = index;
        unit.since = now;
    }

    void close(Unit &unit, uint64_t end) {
        if (end > unit.since)
            unit.rows.insert(unit.rows.end(), {int64_t(unit.since), int64_t(unit.what), unit.index});
    }

    const std::vector<uint8_t> units_;
    const uint64_t max_cycles_;
    Unit unit_[watch::units];
};

}  // namespace lockstep
