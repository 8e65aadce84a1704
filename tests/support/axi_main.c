/* Runs the network `net` on a board in Verilator.

       axi_main INPUTS OUTPUTS SEED CACHED FAULT ALTERED SLEEPS

   reads the inputs of each run from INPUTS, one after the other as `net_inputs` has them, and writes
   the outputs of each to OUTPUTS. FAULT is an axi_fault; in the word of instruction ALTERED the
   opcode is 0, if that is no -1. If SLEEPS is 1, the driver may look twice, and sleeps until the
   interrupt in between. After a run that fails there is one more. Prints a line for each call: its
   status, the board's registers, the cycles of a run, and the line of the interrupt. */
#include <stdio.h>
#include <stdlib.h>

#include "net.h"

#define ADDRESS 0x3fff1040u

#define INPUT(type, name, count) static type name[count];
#define OUTPUT INPUT
TENSORS
#undef INPUT
#undef OUTPUT

#if NET_WEIGHTS_BYTES
static unsigned char weights[NET_WEIGHTS_BYTES] __attribute__((aligned(NET_WEIGHTS_ALIGNMENT)));
#endif
static unsigned char arena[NET_ARENA_BYTES + 1] __attribute__((aligned(NET_ARENA_ALIGNMENT)));

static const void *read_weights(void)
{
#if NET_WEIGHTS_BYTES
    FILE *file = fopen("net.bin", "rb");

    if (file && fread(weights, 1, sizeof weights, file) == sizeof weights && !fclose(file))
        return weights;
#endif
    return NULL;
}

static void say(const char *call, int32_t status, const lockstep_board *board)
{
    printf("%s %d %u %u %u %llu %d\n", call, (int)status, (unsigned)board->status,
           (unsigned)board->index, (unsigned)board->waiting,
           (unsigned long long)(status ? 0 : lockstep_board_cycles(board)), axi_interrupt());
}

static int read_inputs(FILE *file)
{
    size_t missing = 0;
#define INPUT(type, name, count) missing += count - fread(name, sizeof *name, count, file);
#define OUTPUT(type, name, count)
    TENSORS
#undef INPUT
#undef OUTPUT
    return missing == 0;
}

static void write_outputs(FILE *file)
{
#define INPUT(type, name, count)
#define OUTPUT(type, name, count) fwrite(name, sizeof *name, count, file);
    TENSORS
#undef INPUT
#undef OUTPUT
}

int main(int argc, char **argv)
{
    static struct net net;
    lockstep_board board = {0};
    const int cached = argc == 8 ? atoi(argv[4]) : 0, altered = argc == 8 ? atoi(argv[6]) : 0;
    const int sleeps = argc == 8 ? atoi(argv[7]) : 0;
    const enum axi_fault fault = argc == 8 ? (enum axi_fault)atoi(argv[5]) : AXI_NO_FAULT;
    const net_inputs inputs = INPUTS;
    const net_outputs outputs = OUTPUTS;
    FILE *given, *made;
    int32_t status;

    if (argc != 8 || !(given = fopen(argv[1], "rb")) || !(made = fopen(argv[2], "wb")))
        return 2;
    board.registers = (volatile uint32_t *)arena;       /* not used: see axi_board.h */
    board.memory = axi_board_new(ADDRESS, NET_DMA_BYTES, cached, strtoull(argv[3], NULL, 10));
    board.address = ADDRESS;
    if (cached) {
        board.clean = axi_clean;
        board.invalidate = axi_invalidate;
    }
    board.wait = sleeps ? axi_sleep : axi_wait;
    board.polls = sleeps ? 2 : 1000;
    if (fault == AXI_DEAD)
        axi_board_fault(fault);
    status = net_init(&net, read_weights(), &board);
    say("init", status, &board);
    if (altered >= 0 && !status) {
        unsigned char *line = (unsigned char *)board.memory + 64 * altered;

        line[0] = 0;
        if (cached)
            axi_clean(NULL, line, 64);
    }
    axi_board_fault(fault);
    while (!status && read_inputs(given)) {
        status = net_run(&net, &inputs, &outputs, arena);
        say("run", status, &board);
        write_outputs(made);
    }
    if (status && net.board)
        say("run", net_run(&net, &inputs, &outputs, arena), &board);
    axi_board_delete();
    return fclose(made) || fclose(given);
}
