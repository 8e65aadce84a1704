"""Exported networks on a microcontroller without a system, in QEMU: right or not, and what they
take.

A network's object is linked by ``arm-none-eabi-gcc`` with a firmware that runs it on samples,
compares every output with the module's, and looks how far the paint on its stack is gone. QEMU's
machine `mps2-an500` is a Cortex-M7; its clock is moved by instructions (``-icount``), so a timer
counts these: how many are executed, not how long they take.
"""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from compiler.exports import CArray, CInterface

CC, EMULATOR = "arm-none-eabi-gcc", "qemu-system-arm"
FLAGS = ("-mcpu=cortex-m7", "-mthumb", "-mfpu=fpv5-sp-d16", "-mfloat-abi=hard", "-Wall", "-Wextra",
         "-Werror", "-nostartfiles", "--specs=nano.specs", "--specs=nosys.specs",
         "-Wl,--no-warn-execstack", "-Wl,--no-warn-rwx-segments")
SECONDS = 600           # of an emulation, at most
Values = Mapping[str, np.ndarray]

LAYOUT = """\
MEMORY
{
  CODE (rx) : ORIGIN = 0x00000000, LENGTH = 4M
  DATA (rw) : ORIGIN = 0x20000000, LENGTH = 4M
  MORE (r) : ORIGIN = 0x60000000, LENGTH = 16M
}
SECTIONS
{
  .text : { KEEP(*(.vectors)) *(.text*) } > CODE
  .rodata : { *(.rodata*) } > MORE
  .ARM.exidx : { *(.ARM.exidx*) } > CODE
  .bss (NOLOAD) : { *(.data*) *(.bss*) *(COMMON) } > DATA
  top_of_stack = ORIGIN(DATA) + LENGTH(DATA);
}
"""
BOARD = r"""
#include <stdint.h>
#include <string.h>

extern char top_of_stack[];
void start(void);
__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    top_of_stack, start};

static int host(int operation, const void *argument)    /* semihosting */
{
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static void say(const char *name, unsigned number)
{
    char digits[12] = "", *at = digits + 10;
    digits[10] = '\n';
    do
        *--at = (char)('0' + number % 10);
    while (number /= 10);
    host(4, name);
    host(4, at);
}

/* A timer of 25 MHz: of 40 instructions, at one a nanosecond. */
#define TIMER ((volatile unsigned *)0x40000000)
static void begin(void)
{
    *(volatile unsigned *)0xe000ed88 |= 0xf << 20;      /* the floating-point unit */
    __asm__ volatile("dsb\n isb");
    TIMER[2] = TIMER[1] = 0xffffffff;
    TIMER[0] = 1;
}
static unsigned ticks(void) { return 0xffffffff - TIMER[1]; }

enum { PAINTED = 1 << 18, NEAR = 96 };

static int compute(int sample);

__attribute__((noinline)) static unsigned painted(int sample, int *status, unsigned *time)
{
    volatile unsigned char *low, *here = (unsigned char *)__builtin_frame_address(0) - NEAR;
    for (low = here - PAINTED; low < here; low++)
        *low = 0xa5;
    *time = ticks();
    *status = compute(sample);
    *time = ticks() - *time;
    for (low = here - PAINTED; low < here && *low == 0xa5;)
        low++;
    return (unsigned)(here - low) + NEAR;
}

static void end(void)
{
    host(0x18, (const void *)0x20026);                  /* exit */
    for (;;)
        ;
}
"""
MAIN = r"""
__attribute__((noinline)) static void run_all(void)
{
    unsigned right = 0, stack = 0, most = 0, time, used;
    int sample, status;
    prepare();
    for (sample = 0; sample < SAMPLES; sample++) {
        used = painted(sample, &status, &time);
        stack = used > stack ? used : stack;
        most = time > most ? time : most;
        right += status == 0 && same(sample);
    }
    say("right ", right);
    say("stack ", stack);
    say("ticks ", most);
}

void start(void)        /* saves no floating-point registers, before there are any */
{
    begin();
    run_all();
    end();
}
"""


@dataclass(frozen=True, slots=True)
class Run:
    """How many samples gave the module's outputs, the deepest stack in bytes, and the most
    instructions of a run, in steps of 40.
    """

    right: int
    stack_bytes: int
    instructions: int


def run_network(folder: Path, interface: CInterface, given: Sequence[Values],
                wanted: Sequence[Values], bound: float = 0.0) -> Run:
    """Links ``NAME.o`` and ``NAME.h`` of the folder, and runs it on samples by name. Floats may
    differ by `bound`, as a share of the largest element or of 1; all else is the same to the bit.
    """
    name = interface.name
    firmware = _firmware(interface, given, wanted, bound, _exported(interface))
    return emulated(folder, f'#include "{name}.h"\n{firmware}', [f"{name}.o"])


def run_function(folder: Path, function: str, code: str, interface: CInterface,
                 given: Sequence[Values], wanted: Sequence[Values], bound: float) -> Run:
    """The same of a function ``void (inputs..., outputs...)`` in an object of the folder, which
    has memory of its own.
    """
    arrays = [*(f"given{place}[sample]" for place in range(len(interface.inputs))),
              *(f"made{place}" for place in range(len(interface.outputs)))]
    text = (f"void {function}();\nstatic void prepare(void) {{ }}\n"
            f"static int compute(int sample) {{ {function}({', '.join(arrays)}); return 0; }}")
    return emulated(folder, _firmware(interface, given, wanted, bound, text), [code])


def _firmware(interface: CInterface, given: Sequence[Values], wanted: Sequence[Values],
              bound: float, network: str) -> str:
    """The text around functions that prepare and compute."""
    outputs = [f"static unsigned char made{place}[{max(array.size_bytes, 1)}] "
               f"__attribute__((aligned(8)));" for place, array in enumerate(interface.outputs)]
    same = " && ".join(_same(place, array, bound)
                       for place, array in enumerate(interface.outputs))
    return "\n".join([
        BOARD, f"enum {{ SAMPLES = {len(given)} }};",
        *_samples("given", interface.inputs, given), *_samples("wanted", interface.outputs, wanted),
        *outputs, network, _CLOSE if "close(" in same else "",
        f"static int same(int sample) {{ return {same}; }}", MAIN])


def emulated(folder: Path, firmware: str, others: Sequence[str]) -> Run:
    """Compiles the firmware, links it with the other files of the folder, and runs it."""
    (folder / "firmware.c").write_text(firmware)
    (folder / "layout.ld").write_text(LAYOUT)
    subprocess.run([CC, *FLAGS, "-O1", "-T", "layout.ld", "-o", "firmware.elf", "firmware.c",
                    *others, "-lm"], cwd=folder, check=True)
    done = subprocess.run(
        [EMULATOR, "-M", "mps2-an500", "-nographic", "-semihosting", "-icount", "shift=0",
         "-kernel", "firmware.elf"], cwd=folder, capture_output=True, text=True, check=False,
        timeout=SECONDS, stdin=subprocess.DEVNULL)
    said = dict(line.split() for line in (done.stdout + done.stderr).splitlines()
                if len(line.split()) == 2)
    return Run(int(said.get("right", 0)), int(said.get("stack", 0)),
               40 * int(said.get("ticks", 0)))


def _samples(role: str, arrays: Sequence[CArray], samples: Sequence[Values]) -> list[str]:
    """The bytes of samples, an array of C for each input or output."""
    lines = []
    for place, array in enumerate(arrays):
        rows = [np.ascontiguousarray(sample[array.name]).reshape(-1).view(np.uint8)
                for sample in samples]
        size = -(-max(array.size_bytes, 1) // 8) * 8
        lines += [f"static const unsigned char {role}{place}[{len(rows)}][{size}] "
                  f"__attribute__((aligned(8))) = {{",
                  *(f"  {{{','.join(map(str, row))}}}," for row in rows), "};"]
    return lines


def _exported(interface: CInterface) -> str:
    """Functions that prepare an instance and run it, on arrays in the arena where they have places
    there.
    """
    def where(array: CArray, otherwise: str) -> str:
        return otherwise if array.offset is None else f"arena + {array.offset}"

    name, prefix = interface.name, interface.prefix
    given = ", ".join(f"(const void *)({where(array, f'given{place}[sample]')})"
                      for place, array in enumerate(interface.inputs))
    made = ", ".join(f"(void *)({where(array, f'made{place}')})"
                     for place, array in enumerate(interface.outputs))
    filled = [f"    memcpy(arena + {array.offset}, given{place}[sample], {array.size_bytes});"
              for place, array in enumerate(interface.inputs) if array.offset is not None]
    read = [f"    memcpy(made{place}, arena + {array.offset}, {array.size_bytes});"
            for place, array in enumerate(interface.outputs) if array.offset is not None]
    return "\n".join([
        f"static unsigned char arena[{prefix}ARENA_BYTES + 1] "
        f"__attribute__((aligned({prefix}ARENA_ALIGNMENT)));",
        f"static struct {name} self;",
        f"static void prepare(void) {{ {name}_init(&self, 0); }}",
        "static int compute(int sample)", "{",
        f"    {name}_inputs inputs = {{{given}}};", f"    {name}_outputs outputs = {{{made}}};",
        "    int status;", *filled,
        f"    status = {name}_run(&self, &inputs, &outputs, arena);", *read,
        "    return status;", "}"])


_CLOSE = """\
static int close(const void *found, const void *wanted, int count, float bound)
{
    const float *f = found, *w = wanted;
    float most = 1;
    int i;
    for (i = 0; i < count; i++)
        most = w[i] > most ? w[i] : -w[i] > most ? -w[i] : most;
    for (i = 0; i < count; i++)
        if (!(f[i] - w[i] <= bound * most && w[i] - f[i] <= bound * most))
            return 0;
    return 1;
}
"""


def _same(place: int, array: CArray, bound: float) -> str:
    if bound and array.dtype == "float32":
        return f"close(made{place}, wanted{place}[sample], {array.elements}, {bound!r}f)"
    return f"!memcmp(made{place}, wanted{place}[sample], {array.size_bytes})"
