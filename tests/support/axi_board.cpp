// A board in Verilator for programs in C; see axi_board.h.

#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "Vlockstep.h"
#include "axi_board.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }

namespace {

constexpr size_t LINE = 64;                 // bytes of the cache's lines
constexpr size_t BUS = sizeof Vlockstep::m_axi_gmem_rdata;
constexpr int PATIENCE = 2000;              // cycles for an answer of the registers
constexpr int WAIT_CYCLES = 500;            // that pass between two polls
constexpr int SLEEP_CYCLES = 1000000;       // without an interrupt
constexpr int FAULT_CYCLES = 1500;          // from the start of a run to its fault
constexpr uint32_t SLVERR = 2;

struct Random {  // splitmix64
    uint64_t state;
    uint64_t next() {
        uint64_t z = (state += 0x9E3779B97F4A7C15ull);
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ z >> 27) * 0x94D049BB133111EBull;
        return z ^ z >> 31;
    }
    bool often() { return next() % 10 < 7; }
};

struct alignas(LINE) Line {
    uint8_t bytes[LINE];
    bool operator!=(const Line &other) const { return memcmp(bytes, other.bytes, LINE) != 0; }
};

// Memory, and the lines of a cache that holds all of it. A line is dirty if it is not what came from
// memory or went there last.
struct Memory {
    Memory(size_t bytes, bool cached, Random &random) : cached(cached), random(random) {
        for (auto *lines : {&behind, &seen}) {
            lines->resize((bytes + LINE - 1) / LINE);
            for (auto &line : *lines)
                for (auto &byte : line.bytes) byte = uint8_t(random.next());
        }
        synced = behind;
    }
    uint8_t *processor() { return (cached ? seen : behind).data()->bytes; }
    size_t bytes() const { return behind.size() * LINE; }
    void clean(size_t line) {
        if (seen[line] != synced[line]) behind[line] = synced[line] = seen[line];
    }
    void invalidate(size_t line) { seen[line] = synced[line] = behind[line]; }
    void something() {                      // what a cache does for reasons of its own
        size_t line = random.next() % seen.size();
        if (seen[line] != synced[line]) clean(line); else invalidate(line);
    }

    bool cached;
    Random &random;
    std::vector<Line> behind, seen, synced;
};

struct Burst {
    uint32_t addr, left;
};

struct Board {
    Board(uint32_t address, size_t bytes, bool cached, uint64_t seed)
        : random{seed}, memory(bytes, cached, random), address(address),
          top(std::make_unique<Vlockstep>(context.get())) {
        top->ap_rst_n = 0;
        for (int i = 0; i < 8; i++) cycle();
        top->ap_rst_n = 1;
        for (int i = 0; i < 8; i++) cycle();
    }

    uint8_t *place(uint32_t at) {
        if (fault == AXI_BUS_ERRORS && running) return nullptr;
        return at >= address && at - address + BUS <= memory.bytes()
            ? memory.behind.data()->bytes + (at - address) : nullptr;
    }

    void cycle() {
        if (running && ++run_cycles == FAULT_CYCLES) {
            if (fault == AXI_RESET || fault == AXI_HELD_IN_RESET) top->ap_rst_n = 0;
            stopped = fault == AXI_NO_CLOCK;
        }
        if (fault == AXI_RESET && run_cycles == FAULT_CYCLES + 20) {
            top->ap_rst_n = 1;
            fault = AXI_NO_FAULT;
        }
        if (stopped) return;
        if (memory.cached && random.next() % 64 == 0) memory.something();
        offer();
        top->eval();
        transfer();
        top->ap_clk = 1;
        top->eval();
        top->ap_clk = 0;
        top->eval();
    }

    // What the memory shows in a cycle. An offer stays until it is taken.
    void offer() {
        bool takes = fault != AXI_NO_MEMORY || !running;
        top->m_axi_gmem_arready = takes && random.often();
        top->m_axi_gmem_awready = takes && random.often();
        top->m_axi_gmem_wready = !writes.empty() && random.often();
        if (!offered_read && !reads.empty() && random.often()) {
            uint8_t *there = place(reads.front().addr);
            if (there) memcpy(&top->m_axi_gmem_rdata, there, BUS);
            top->m_axi_gmem_rresp = there ? 0 : SLVERR;
            top->m_axi_gmem_rlast = reads.front().left == 1;
            offered_read = true;
        }
        top->m_axi_gmem_rvalid = offered_read;
        top->m_axi_gmem_bvalid = !answers.empty();
        top->m_axi_gmem_bresp = answers.empty() ? 0 : answers.front();
    }

    // What moves at the end of the cycle.
    void transfer() {
        if (!top->ap_rst_n) {               // nothing of before is answered
            reads.clear(), writes.clear(), answers.clear();
            offered_read = false;
            return;
        }
        if (top->m_axi_gmem_rvalid && top->m_axi_gmem_rready) {
            offered_read = false;
            reads.front().addr += BUS;
            if (--reads.front().left == 0) reads.pop_front();
        }
        if (top->m_axi_gmem_bvalid && top->m_axi_gmem_bready) answers.pop_front();
        if (top->m_axi_gmem_wvalid && top->m_axi_gmem_wready) {
            Burst &burst = writes.front();
            uint8_t *there = place(burst.addr);
            auto *data = reinterpret_cast<const uint8_t *>(&top->m_axi_gmem_wdata);
            for (size_t i = 0; there && i < BUS; i++)
                if (top->m_axi_gmem_wstrb >> i & 1) there[i] = data[i];
            failed |= !there;
            burst.addr += BUS;
            if (--burst.left == 0) {
                answers.push_back(failed ? SLVERR : 0);
                writes.pop_front();
                failed = false;
            }
        }
        if (top->m_axi_gmem_arvalid && top->m_axi_gmem_arready)
            reads.push_back({top->m_axi_gmem_araddr, top->m_axi_gmem_arlen + 1u});
        if (top->m_axi_gmem_awvalid && top->m_axi_gmem_awready)
            writes.push_back({top->m_axi_gmem_awaddr, top->m_axi_gmem_awlen + 1u});
    }

    // Keeps a valid up until it is taken; whether that has happened.
    bool pass(CData &valid, const CData &ready) {
        valid = 1;
        for (int i = 0; i < PATIENCE; i++) {
            top->eval();
            bool taken = ready && !stopped;
            cycle();
            if (taken) {
                valid = 0;
                return true;
            }
        }
        valid = 0;
        return false;
    }

    bool answered(const CData &valid) {
        for (int i = 0; i < PATIENCE; i++, cycle()) {
            top->eval();
            if (valid && !stopped) return true;
        }
        return false;
    }

    void take(CData &ready) {
        ready = 1;
        cycle();
        ready = 0;
    }

    uint32_t read(uint32_t word) {
        top->s_axi_control_araddr = 4 * word;
        if (!pass(top->s_axi_control_arvalid, top->s_axi_control_arready) ||
            !answered(top->s_axi_control_rvalid)) return UINT32_MAX;
        uint32_t value = top->s_axi_control_rresp ? UINT32_MAX : top->s_axi_control_rdata;
        take(top->s_axi_control_rready);
        return value;
    }

    void write(uint32_t word, uint32_t value) {
        top->s_axi_control_awaddr = 4 * word;
        top->s_axi_control_wdata = value;
        top->s_axi_control_wstrb = 0xF;
        if (pass(top->s_axi_control_awvalid, top->s_axi_control_awready) &&
            pass(top->s_axi_control_wvalid, top->s_axi_control_wready) &&
            answered(top->s_axi_control_bvalid)) take(top->s_axi_control_bready);
        if (word == AXI_RUN_WORD) running = true, run_cycles = 0;
    }

    Random random;
    Memory memory;
    uint32_t address;
    std::unique_ptr<VerilatedContext> context = std::make_unique<VerilatedContext>();
    std::unique_ptr<Vlockstep> top;
    std::deque<Burst> reads, writes;
    std::deque<uint32_t> answers;
    axi_fault fault = AXI_NO_FAULT;
    bool offered_read = false, failed = false, running = false, stopped = false;
    int64_t run_cycles = 0;
};

std::unique_ptr<Board> board;

void each_line(void *begin, size_t bytes, void (Memory::*act)(size_t)) {
    Memory &memory = board->memory;
    size_t offset = static_cast<uint8_t *>(begin) - memory.processor();
    if (offset % LINE || bytes % LINE || offset + bytes > memory.bytes()) abort();
    for (size_t line = offset / LINE; line < (offset + bytes) / LINE; line++) (memory.*act)(line);
}

}  // namespace

extern "C" {

unsigned char *axi_board_new(uint32_t address, size_t bytes, int cached, uint64_t seed) {
    board = std::make_unique<Board>(address, bytes, cached != 0, seed);
    return board->memory.processor();
}

void axi_board_fault(axi_fault fault) {
    board->fault = fault;
    board->running = false;
    if (fault == AXI_DEAD) board->top->ap_rst_n = 0;
}

void axi_board_delete() { board.reset(); }

uint32_t axi_read(uint32_t word) { return board->read(word); }
void axi_write(uint32_t word, uint32_t value) { board->write(word, value); }

void axi_clean(void *, void *begin, size_t bytes) { each_line(begin, bytes, &Memory::clean); }
void axi_invalidate(void *, void *begin, size_t bytes) { each_line(begin, bytes, &Memory::invalidate); }

void axi_wait(void *) {
    for (int i = 0; i < WAIT_CYCLES; i++) board->cycle();
}

void axi_sleep(void *) {
    for (int i = 0; i < SLEEP_CYCLES && !board->top->irq; i++) board->cycle();
}

int axi_interrupt() { return board->top->irq; }

}  // extern "C"
