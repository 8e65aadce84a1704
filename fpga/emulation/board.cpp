// A board in Verilator: its clock, and its serial line to a file descriptor.

#include <poll.h>
#include <unistd.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "Vboard.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }

namespace {

struct Random {  // splitmix64
    uint64_t state;
    uint64_t next() {
        uint64_t z = (state += 0x9E3779B97F4A7C15ull);
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ z >> 27) * 0x94D049BB133111EBull;
        return z ^ z >> 31;
    }
};

constexpr int QUIET_BITS = 200;     // of a line on which nothing happens, until the board may doze
constexpr int LOOK_CYCLES = 256;    // between two looks at what the host has sent
constexpr int LINGER = 256;         // cycles after a run or a reset until the core's clock may rest

}  // namespace

extern "C" {

// Shared with Python (emulated.py); what is written by one side is read by the other at any time.
struct Control {
    volatile uint32_t stop, reset, stuck;       // requests: end; reset once; the memory is stuck
    uint32_t bit_cycles;                        // of the line
    uint32_t spoil;                             // of 2^32 bytes so many are spoiled, both ways
    uint32_t reset_within;                      // a reset so many cycles after a run begins, or 0
    uint32_t tireless;                          // the core's clock never rests
    uint64_t seed, cells;                       // words of the memory chip, a power of two
    volatile uint64_t cycles, received, sent, spoiled;
    volatile uint32_t broken;                   // rules of the memory chip
};

void board_run(Control* control, int line) {
    auto context = std::make_unique<VerilatedContext>();
    auto top = std::make_unique<Vboard>(context.get());
    Random random{control->seed};
    std::deque<uint8_t> arriving, leaving;
    std::vector<uint16_t> cells(control->cells);
    const uint32_t bit = control->bit_cycles;
    uint32_t rx_left = 0, rx_timer = 0, rx_bits = 0, tx_left = 0, tx_timer = 0, tx_bits = 0;
    uint32_t resetting = 16, within = 0, awake = LINGER;
    uint64_t quiet = 0, look = 0;
    bool was_busy = false;

    auto spoil = [&](uint8_t byte, std::deque<uint8_t>& to) {   // drops it or flips a bit of it
        uint64_t chance = random.next();
        if ((chance & 0xFFFFFFFFu) >= control->spoil) {
            to.push_back(byte);
            return;
        }
        control->spoiled = control->spoiled + 1;
        if (chance >> 32 & 1) to.push_back(byte ^ 1u << (chance >> 33 & 7));
    };

    top->rx = 1;
    while (!control->stop) {
        if (control->reset) {
            control->reset = 0;
            resetting = 16;
        }
        if (top->busy && !was_busy) within = control->reset_within;
        was_busy = top->busy;
        if (within && --within == 0) {
            control->reset_within = 0;
            resetting = 16;
        }
        top->rst = resetting > 0;
        if (resetting) resetting--;
        top->stuck = control->stuck;

        if (rx_timer) {
            rx_timer--;
        } else if (rx_left) {
            top->rx = rx_bits & 1;
            rx_bits >>= 1;
            rx_left--;
            rx_timer = bit - 1;
        } else if (!arriving.empty()) {
            rx_bits = arriving.front() << 1 | 0x200;
            arriving.pop_front();
            rx_left = 10;
        }

        uint16_t& cell = cells[top->cells___05Faddr & (control->cells - 1)];
        uint16_t before = cell;
        uint16_t mask = (top->cells___05Fw_mask & 1 ? 0xFF : 0) | (top->cells___05Fw_mask & 2 ? 0xFF00 : 0);
        cell = (before & ~mask) | (top->cells___05Fw_data & mask);
        if (top->busy || top->starts || top->rst) awake = LINGER;
        top->clk = 1;
        top->core_clk = awake || control->tireless;
        if (awake) awake--;
        top->eval();
        top->cells___05Fr_data = before;
        top->clk = top->core_clk = 0;
        top->eval();

        if (tx_left == 0) {
            if (!top->tx) {
                tx_left = 9;
                tx_timer = bit + bit / 2;
            }
        } else if (--tx_timer == 0) {
            tx_timer = bit;
            tx_bits = tx_bits >> 1 | uint32_t(top->tx) << 8;
            if (--tx_left == 0 && top->tx) {
                spoil(tx_bits & 0xFF, leaving);
                control->sent = control->sent + 1;
            }
        }

        control->cycles = control->cycles + 1;
        control->broken = top->broken;
        bool moves = rx_left || tx_left || top->busy || resetting || !arriving.empty();
        quiet = moves ? 0 : quiet + 1;
        if (++look < LOOK_CYCLES) continue;
        look = 0;
        while (!leaving.empty()) {
            uint8_t byte = leaving.front();
            if (write(line, &byte, 1) != 1) break;
            leaving.pop_front();
        }
        pollfd watched{line, POLLIN, 0};
        int wait = quiet > uint64_t(QUIET_BITS) * bit ? 2 : 0;    // milliseconds: nothing goes on
        if (arriving.size() < 4096 && poll(&watched, 1, wait) > 0 && watched.revents & POLLIN) {
            uint8_t bytes[512];
            ssize_t count = read(line, bytes, sizeof bytes);
            for (ssize_t i = 0; i < count; i++) spoil(bytes[i], arriving);
            if (count > 0) control->received = control->received + count;
        }
    }
    top->final();
}

}  // extern "C"
