/* The accelerator of a board as a C program sees it: registers, and memory that processor and
   accelerator share. The driver of an exported network (NAME.c) uses it, whatever the network. */
#ifndef LOCKSTEP_BOARD_H
#define LOCKSTEP_BOARD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* REGISTERS */

/* What the functions of the driver, and those of a network on a board, return besides 0: done. */
enum {
    LOCKSTEP_BAD_BOARD = 64,        /* registers or memory are NULL, or polls is 0 */
    LOCKSTEP_BAD_MEMORY = 65,       /* memory or address is no multiple of LOCKSTEP_BOARD_ALIGNMENT,
                                       or the memory does not end within the first 4 GiB */
    LOCKSTEP_NO_ACCELERATOR = 66,   /* the register magic has another value */
    LOCKSTEP_OTHER_REGISTERS = 67,  /* the registers have another version than this header */
    LOCKSTEP_OTHER_MACHINE = 68,    /* the accelerator is not the machine of the program */
    LOCKSTEP_BUSY = 69,             /* a run is on, say one that has timed out */
    LOCKSTEP_TIMED_OUT = 70,        /* the run is not over after `polls` polls; it may go on */
    LOCKSTEP_LOST = 71,             /* the registers do not have the run any more: the accelerator
                                       was reset, or does not answer */
    LOCKSTEP_FAILED = 72,           /* the run ended in an error: see `status`, LOCKSTEP_RUN_ */
    LOCKSTEP_BAD_POSITION = 73      /* a position is none of the places of its cache */
};

#define LOCKSTEP_BOARD_ALIGNMENT 64

/* A board, of the caller's. All but the last three members are set before NAME_init. */
typedef struct lockstep_board {
    /* The accelerator's registers, where the processor has them. */
    volatile uint32_t *registers;

    /* Memory for a network, NAME_DMA_BYTES long: where the processor has it, and its address on
       the accelerator's bus. */
    void *memory;
    uint64_t address;

    /* Caches between the processor and this memory; NULL where the accelerator sees what the
       processor writes, and the processor what the accelerator writes. `clean` writes lines back to
       memory, and returns when what the processor has written before is there; `invalidate` drops
       lines. Ranges are whole multiples of LOCKSTEP_BOARD_ALIGNMENT bytes. */
    void (*clean)(void *context, void *begin, size_t bytes);
    void (*invalidate)(void *context, void *begin, size_t bytes);

    /* Called between two polls for the end of a run: passes some time, or sleeps until there is a
       reason to look, say the accelerator's interrupt, which stays until `wait` has returned or a
       handler writes 0 to the register of this name. NULL: the driver polls without a pause. */
    void (*wait)(void *context);

    /* What these functions get. */
    void *context;

    /* How often the driver looks whether a run is over, at most. */
    uint32_t polls;

    /* The registers of these names at the end of the last run; zeros if it has not ended. */
    uint32_t status, index, waiting;
} lockstep_board;

/* A program in a board's memory: how many instructions, and where its segments begin, in the order
   of the registers from LOCKSTEP_REGISTER_BASE_PROGRAM on. */
typedef struct lockstep_program {
    uint32_t count;
    uint32_t bases[LOCKSTEP_BASES];
} lockstep_program;

/* A tensor in a board's memory: [images / batch][pixels][batch][padded], of which `images` and
   `channels` are the network's. There it is [images][channels][pixels], or with `last`
   [images][pixels][channels]. Elements have `element` bytes. */
typedef struct lockstep_tensor {
    uint32_t offset, bytes;
    uint32_t images, batch, pixels, channels, padded, last, element;
} lockstep_tensor;

/* A store of a program that puts a row at a place which a run says: where its instruction lies in
   the board's memory, the address of place 0, and bytes from one place to the next. */
typedef struct lockstep_store {
    uint32_t word, dram, stride;
} lockstep_store;

/* Checks the board and that it is the machine with this hash, that its memory has `bytes` bytes at
   a place for it, and that no run is on. */
int32_t lockstep_board_open(const lockstep_board *board, const uint32_t *machine, uint64_t bytes);

/* Copies bytes to the beginning of the board's memory, which has `all` bytes, and cleans the
   whole of it. */
void lockstep_board_load(const lockstep_board *board, const void *bytes, size_t count, size_t all);

/* Copies a tensor to the board, and from it. */
void lockstep_board_put(const lockstep_board *board, const lockstep_tensor *tensor,
                        const void *values);
void lockstep_board_get(const lockstep_board *board, const lockstep_tensor *tensor, void *values);

/* Moves stores to a position, an int64_t of 0 to `places` - 1. */
int32_t lockstep_board_move(const lockstep_board *board, const lockstep_store *stores, int count,
                            int64_t places, const void *position);

/* Runs a program to its end. */
int32_t lockstep_board_run(lockstep_board *board, const lockstep_program *program);

/* The cycles that the last run took, by the accelerator's counters. */
uint64_t lockstep_board_cycles(const lockstep_board *board);

#ifdef __cplusplus
}
#endif

#endif
