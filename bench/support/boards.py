"""Boards without a system in QEMU: their compilers, start-up code and emulators, and a run on
one."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SECONDS = 600           # of an emulation, at most


@dataclass(frozen=True, slots=True)
class Board:
    """A board of QEMU for a machine of `MACHINES`.

    Parameters
    ----------
    compiler : the command that makes a program of sources in C: the board's libc, whose output goes
        to QEMU by semihosting, its memory, and its start-up code.
    emulator : the command that runs it.
    files : what the compiler needs beside the sources, by name.
    executed : a function of C that counts instructions.
    """

    compiler: Sequence[str]
    emulator: Sequence[str]
    executed: str
    files: Mapping[str, str]

    @property
    def missing(self) -> list[str]:
        """The tools that are not there."""
        return [command[0] for command in (self.compiler, self.emulator)
                if shutil.which(command[0]) is None]


CORTEX_START = """\
extern char top_of_stack[];
void _start(void);                                      /* of newlib */

static void reset(void)
{
    *(volatile unsigned *)0xe000ed88 |= 0xf << 20;      /* the floating-point unit */
    __asm__ volatile("dsb\\n isb");
    _start();
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    top_of_stack, reset};
"""
CORTEX_LAYOUT = """\
MEMORY
{
  CODE (rx) : ORIGIN = 0x00000000, LENGTH = 4M
  DATA (rw) : ORIGIN = 0x20000000, LENGTH = 4M
}
SECTIONS
{
  .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) KEEP(*(.init)) KEEP(*(.fini)) } > CODE
  .ARM.exidx : { *(.ARM.exidx*) } > CODE
  .data : { *(.data*) *(.init_array*) *(.fini_array*) } > DATA
  .bss (NOLOAD) : { __bss_start__ = .; *(.bss*) *(COMMON) __bss_end__ = .; } > DATA
  end = .; __end__ = .;
  top_of_stack = ORIGIN(DATA) + LENGTH(DATA);
}
"""
CORTEX_EXECUTED = """\
/* A timer of 25 MHz: 40 instructions a step, at one a nanosecond. */
static unsigned long long executed(void)
{
    volatile unsigned *timer = (volatile unsigned *)0x40000000;
    if (!timer[0]) {
        timer[2] = timer[1] = 0xffffffff;
        timer[0] = 1;
    }
    return 40ull * (0xffffffff - timer[1]);
}
"""
RISCV_EXECUTED = """\
static unsigned long long executed(void)
{
    unsigned long count;
    __asm__ volatile(".option push\\n.option arch, +zicsr\\ncsrr %0, minstret\\n.option pop"
                     : "=r"(count));
    return count;
}
"""


def _riscv(bits: int, arch: str, abi: str) -> Board:
    memory = {"__flash": "0x80000000", "__flash_size": "32M", "__ram": "0x82000000",
              "__ram_size": "32M"}
    return Board(
        ("riscv64-unknown-elf-gcc", f"-march={arch}", f"-mabi={abi}", "-mcmodel=medany",
         "--specs=picolibc.specs", "--oslib=semihost", "--crt0=semihost",
         *(f"-Wl,--defsym={name}={value}" for name, value in memory.items())),
        (f"qemu-system-riscv{bits}", "-machine", "virt", "-bios", "none", "-nographic",
         "-semihosting", "-icount", "shift=0", "-kernel"), RISCV_EXECUTED, {})


BOARDS = {
    "cortex-m7": Board(
        ("arm-none-eabi-gcc", "-mcpu=cortex-m7", "-mthumb", "-mfpu=fpv5-sp-d16",
         "-mfloat-abi=hard", "--specs=rdimon.specs", "-T", "layout.ld", "start.c"),
        ("qemu-system-arm", "-M", "mps2-an500", "-nographic", "-semihosting", "-icount", "shift=0",
         "-kernel"), CORTEX_EXECUTED, {"start.c": CORTEX_START, "layout.ld": CORTEX_LAYOUT}),
    "riscv32": _riscv(32, "rv32imc", "ilp32"), "riscv64": _riscv(64, "rv64gc", "lp64d")}
"""By machine."""
AROUND = """\
#include <stdio.h>
#include <stdlib.h>
#include "{name}.h"

{executed}
int32_t __real_{name}_run(const struct {name} *, const {name}_inputs *, const {name}_outputs *,
                          void *);

enum {{ PAINTED = 1 << 17, NEAR = 256 }};
static unsigned long stack;
static unsigned long long instructions;

static void report(void)
{{
    printf("stack %lu\\ninstructions %lu\\n", stack, (unsigned long)instructions);
}}

int32_t __wrap_{name}_run(const struct {name} *self, const {name}_inputs *inputs,
                          const {name}_outputs *outputs, void *arena)
{{
    volatile unsigned char *low, *here = (unsigned char *)__builtin_frame_address(0) - NEAR;
    unsigned long long begun;
    int32_t status;
    if (!stack)
        atexit(report);
    for (low = here - PAINTED; low < here; low++)
        *low = 0xa5;
    begun = executed();
    status = __real_{name}_run(self, inputs, outputs, arena);
    begun = executed() - begun;
    instructions = begun > instructions ? begun : instructions;
    for (low = here - PAINTED; low < here && *low == 0xa5;)
        low++;
    if ((unsigned long)(here - low) + NEAR > stack)
        stack = (unsigned long)(here - low) + NEAR;
    return status;
}}
"""
"""Stands around a run: how deep its stack was, how many instructions it took."""


def run_on(board: Board, folder: Path, *sources: str) -> subprocess.CompletedProcess[str]:
    """Compiles sources and objects of a folder for a board, and runs the program; its output has
    what QEMU writes to the standard error, as it does with semihosting of RISC-V.
    """
    for name, text in board.files.items():
        (folder / name).write_text(text)
    subprocess.run([*board.compiler, "-std=c99", "-O1", "-Wall", "-Wextra", "-Werror",
                    "-Wl,--no-warn-rwx-segments", "-Wl,-z,noexecstack", "-o", "program.elf",
                    *sources, "-lm"], cwd=folder, check=True)
    return subprocess.run([*board.emulator, "program.elf"], cwd=folder, text=True, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=SECONDS)
