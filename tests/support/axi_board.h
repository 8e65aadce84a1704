/* A board in Verilator for programs in C: the accelerator for a Zynq, its registers behind AXI4-Lite
   and its memory behind AXI4, and a processor's cache in front of that memory.

   Included before lockstep_board.c, so that each access of the driver is one over AXI4-Lite. */
#ifndef AXI_BOARD_H
#define AXI_BOARD_H

#include <stddef.h>
#include <stdint.h>

#define LOCKSTEP_READ(board, word) ((void)(board), axi_read((uint32_t)(word)))
#define LOCKSTEP_WRITE(board, word, value) ((void)(board), axi_write((uint32_t)(word), value))

#ifdef __cplusplus
extern "C" {
#endif

enum axi_fault {
    AXI_NO_FAULT,
    AXI_NO_MEMORY,      /* the memory takes no requests from the next run on */
    AXI_BUS_ERRORS,     /* the memory answers with errors from the next run on */
    AXI_RESET,          /* a reset of some cycles within the next run */
    AXI_HELD_IN_RESET,  /* a reset within the next run that does not end */
    AXI_NO_CLOCK,       /* the clock stops within the next run */
    AXI_DEAD            /* a reset from now on that does not end */
};

/* Puts `bytes` bytes of memory behind the accelerator's address `address`, and a cache in front of
   them, which the processor sees at the address that is returned; 0: the memory itself, as a
   coherent machine has it. What is in memory and in the cache is noise. */
unsigned char *axi_board_new(uint32_t address, size_t bytes, int cached, uint64_t seed);
void axi_board_fault(enum axi_fault fault);
void axi_board_delete(void);

uint32_t axi_read(uint32_t word);                       /* ones, if nothing answers */
void axi_write(uint32_t word, uint32_t value);

/* Hooks of a lockstep_board. The cache writes lines back, and drops clean ones, at random times. */
void axi_clean(void *context, void *begin, size_t bytes);
void axi_invalidate(void *context, void *begin, size_t bytes);
void axi_wait(void *context);
void axi_sleep(void *context);                          /* until the interrupt, or for a long time */

int axi_interrupt(void);                                /* the line of the interrupt */

#ifdef __cplusplus
}
#endif

#endif
