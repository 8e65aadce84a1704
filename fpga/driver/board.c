/* The driver of a board; see lockstep_board.h. C99, and of the library memcpy alone. */
#include "lockstep_board.h"

#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "The accelerator's tensors are little-endian; so must be the processor"
#endif

/* Registers that are not words of memory: define both for the compiler. */
#ifndef LOCKSTEP_READ
#define LOCKSTEP_READ(board, word) ((board)->registers[word])
#define LOCKSTEP_WRITE(board, word, value) ((board)->registers[word] = (value))
#endif

/* Between ordinary memory and registers. This one stops the compiler; a processor that moves
   accesses past each other, and has no `clean`, needs an instruction, say "dsb sy" on Arm. */
#ifndef LOCKSTEP_BARRIER
#ifndef __GNUC__
#error "LOCKSTEP_BARRIER() must be defined: a statement past which the compiler moves no access"
#endif
#define LOCKSTEP_BARRIER() __asm__ __volatile__("" ::: "memory")
#endif

static void clean(const lockstep_board *board, size_t offset, size_t bytes)
{
    LOCKSTEP_BARRIER();
    if (board->clean)
        board->clean(board->context, (unsigned char *)board->memory + offset, bytes);
}

static void invalidate(const lockstep_board *board, size_t offset, size_t bytes)
{
    if (board->invalidate)
        board->invalidate(board->context, (unsigned char *)board->memory + offset, bytes);
    LOCKSTEP_BARRIER();
}

int32_t lockstep_board_open(const lockstep_board *board, const uint32_t *machine, uint64_t bytes)
{
    const uint64_t end = (uint64_t)1 << 32;
    int word;

    if (!board->registers || !board->memory || !board->polls)
        return LOCKSTEP_BAD_BOARD;
    if ((uintptr_t)board->memory % LOCKSTEP_BOARD_ALIGNMENT ||
        board->address % LOCKSTEP_BOARD_ALIGNMENT || bytes > end || board->address > end - bytes)
        return LOCKSTEP_BAD_MEMORY;
    if (LOCKSTEP_READ(board, LOCKSTEP_REGISTER_MAGIC) != LOCKSTEP_MAGIC)
        return LOCKSTEP_NO_ACCELERATOR;
    if (LOCKSTEP_READ(board, LOCKSTEP_REGISTER_VERSION) != LOCKSTEP_REGISTERS_VERSION)
        return LOCKSTEP_OTHER_REGISTERS;
    for (word = 0; word < LOCKSTEP_MACHINE_WORDS; word++)
        if (LOCKSTEP_READ(board, LOCKSTEP_REGISTER_MACHINE + word) != machine[word])
            return LOCKSTEP_OTHER_MACHINE;
    if (LOCKSTEP_READ(board, LOCKSTEP_REGISTER_DONE) != LOCKSTEP_READ(board, LOCKSTEP_REGISTER_RUN))
        return LOCKSTEP_BUSY;
    return 0;
}

void lockstep_board_load(const lockstep_board *board, const void *bytes, size_t count, size_t all)
{
    memcpy(board->memory, bytes, count);
    /* All of it: a line that the caller has written would else be written back during a run. */
    clean(board, 0, all);
}

/* memcpy, without a call for a single element. */
static void move(unsigned char *to, const unsigned char *from, size_t bytes)
{
    if (bytes == 1)
        *to = *from;
    else
        memcpy(to, from, bytes);
}

/* Copies between a tensor in the board's memory and the network's: from `in`, or where that is NULL
   to `out`. */
static void copy(const lockstep_tensor *tensor, unsigned char *stored, unsigned char *out,
                 const unsigned char *in)
{
    const size_t element = tensor->element, channels = tensor->channels, pixels = tensor->pixels;
    const int rows = tensor->last || pixels == 1;       /* channels lie side by side in both */
    const size_t count = rows ? 1 : channels, bytes = rows ? channels * element : element;
    size_t image, pixel, channel;

    for (image = 0; image < tensor->images; image++)
        for (pixel = 0; pixel < pixels; pixel++) {
            const size_t group = image / tensor->batch, lane = image % tensor->batch;
            size_t there = element * tensor->padded *
                ((group * pixels + pixel) * tensor->batch + lane);
            size_t here = element * (rows ? (image * pixels + pixel) * channels
                                          : image * channels * pixels + pixel);

            for (channel = 0; channel < count; channel++) {
                if (in)
                    move(stored + there, in + here, bytes);
                else
                    move(out + here, stored + there, bytes);
                there += element;
                here += element * pixels;
            }
        }
}

/* The lines of a tensor: its bytes, and what else lies in the first and the last line. */
static size_t first_line(const lockstep_tensor *tensor)
{
    return tensor->offset / LOCKSTEP_BOARD_ALIGNMENT * LOCKSTEP_BOARD_ALIGNMENT;
}

static size_t bytes_of_lines(const lockstep_tensor *tensor)
{
    const size_t end = (size_t)tensor->offset + tensor->bytes + LOCKSTEP_BOARD_ALIGNMENT - 1;

    return end / LOCKSTEP_BOARD_ALIGNMENT * LOCKSTEP_BOARD_ALIGNMENT - first_line(tensor);
}

void lockstep_board_put(const lockstep_board *board, const lockstep_tensor *tensor,
                        const void *values)
{
    copy(tensor, (unsigned char *)board->memory + tensor->offset, NULL, values);
    clean(board, first_line(tensor), bytes_of_lines(tensor));
}

void lockstep_board_get(const lockstep_board *board, const lockstep_tensor *tensor, void *values)
{
    invalidate(board, first_line(tensor), bytes_of_lines(tensor));
    copy(tensor, (unsigned char *)board->memory + tensor->offset, values, NULL);
}

int32_t lockstep_board_move(const lockstep_board *board, const lockstep_store *stores, int count,
                            int64_t places, const void *position)
{
    int64_t place;
    int store;

    memcpy(&place, position, sizeof place);
    if (place < 0 || place >= places)
        return LOCKSTEP_BAD_POSITION;
    for (store = 0; store < count; store++) {
        const uint32_t dram = stores[store].dram + (uint32_t)place * stores[store].stride;

        memcpy((unsigned char *)board->memory + stores[store].word + LOCKSTEP_STORE_DRAM, &dram,
               sizeof dram);
        clean(board, stores[store].word, LOCKSTEP_BOARD_ALIGNMENT);
    }
    return 0;
}

/* Waits for the end of a run by its number. */
static int32_t finished(const lockstep_board *board, uint32_t number)
{
    uint32_t left;

    for (left = board->polls; LOCKSTEP_READ(board, LOCKSTEP_REGISTER_DONE) != number; left--) {
        if (LOCKSTEP_READ(board, LOCKSTEP_REGISTER_RUN) != number)
            return LOCKSTEP_LOST;
        if (left == 1)
            return LOCKSTEP_TIMED_OUT;
        if (board->wait)
            board->wait(board->context);
    }
    return 0;
}

int32_t lockstep_board_run(lockstep_board *board, const lockstep_program *program)
{
    const uint32_t before = LOCKSTEP_READ(board, LOCKSTEP_REGISTER_RUN);
    const uint32_t number = before == UINT32_MAX ? 1 : before + 1;
    int32_t refused;
    int base;

    board->status = board->index = board->waiting = 0;
    if (LOCKSTEP_READ(board, LOCKSTEP_REGISTER_DONE) != before)
        return LOCKSTEP_BUSY;
    LOCKSTEP_WRITE(board, LOCKSTEP_REGISTER_COUNT, program->count);
    for (base = 0; base < LOCKSTEP_BASES; base++)
        LOCKSTEP_WRITE(board, LOCKSTEP_REGISTER_BASE_PROGRAM + base,
                       (uint32_t)board->address + program->bases[base]);
    LOCKSTEP_WRITE(board, LOCKSTEP_REGISTER_RUN, number);
    LOCKSTEP_WRITE(board, LOCKSTEP_REGISTER_INTERRUPT, 1);
    refused = finished(board, number);
    LOCKSTEP_WRITE(board, LOCKSTEP_REGISTER_INTERRUPT, 0);
    if (refused)
        return refused;
    board->status = LOCKSTEP_READ(board, LOCKSTEP_REGISTER_STATUS);
    board->index = LOCKSTEP_READ(board, LOCKSTEP_REGISTER_INDEX);
    board->waiting = LOCKSTEP_READ(board, LOCKSTEP_REGISTER_WAITING);
    return (board->status & 0xFF) == LOCKSTEP_RUN_DONE ? 0 : LOCKSTEP_FAILED;
}

uint64_t lockstep_board_cycles(const lockstep_board *board)
{
    uint64_t cycles = 0;
    int word;

    /* In every cycle the unit load is in one of its activities. Counters have two words. */
    for (word = LOCKSTEP_REGISTER_COUNT_LOAD_BUSY; word <= LOCKSTEP_REGISTER_COUNT_LOAD_SIGNAL;
         word += 2)
        cycles += LOCKSTEP_READ(board, word) | (uint64_t)LOCKSTEP_READ(board, word + 1) << 32;
    return cycles;
}
