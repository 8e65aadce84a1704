"""What do exported networks take of a microcontroller, and are they right there?

    python -m bench.export_cortex_m [--json FILE]

The digits network in int8 is exported for a Cortex-M7, linked without a system (by
``arm-none-eabi-gcc``), and run in QEMU's machine `mps2-an500` on the 360 held-out images. Every
output must be the module's to the bit. The firmware paints its stack before a run and looks how far
the paint is gone. Prints `digits_cortex_m_right N` of 360, and bytes of code, constants (weights
among them), arena and stack. QEMU says nothing about time. Exit status 1 where an output differs.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import lockstep
from compiler.exports.objects import section_bytes
from examples.digits.data import held_out
from runtime.exporting.export import export

DIGITS = Path(__file__).resolve().parents[1] / "examples" / "digits" / "digits-int8.onnx"
CC, EMULATOR = "arm-none-eabi-gcc", "qemu-system-arm"
FLAGS = ("-mcpu=cortex-m7", "-mthumb", "-mfpu=fpv5-sp-d16", "-mfloat-abi=hard", "-O1", "-Wall",
         "-Wextra", "-Werror", "-nostartfiles", "--specs=nano.specs", "--specs=nosys.specs")

LAYOUT = """\
MEMORY
{
  CODE (rx) : ORIGIN = 0x00000000, LENGTH = 4M
  DATA (rw) : ORIGIN = 0x20000000, LENGTH = 4M
}
SECTIONS
{
  .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) } > CODE
  .ARM.exidx : { *(.ARM.exidx*) } > CODE
  .bss (NOLOAD) : { *(.data*) *(.bss*) *(COMMON) } > DATA
  top_of_stack = ORIGIN(DATA) + LENGTH(DATA);
}
"""
FIRMWARE = r"""
#include <string.h>
#include "digits.h"
#include "images.h"

extern char top_of_stack[];
void start(void);
__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    top_of_stack, start};

static unsigned char arena[DIGITS_ARENA_BYTES] __attribute__((aligned(DIGITS_ARENA_ALIGNMENT)));
static float made[DIGITS_OUTPUT_LOGITS_ELEMENTS];

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

enum { PAINTED = 1 << 16, NEAR = 256 };

__attribute__((noinline)) static unsigned run(struct digits *self, int image)
{
    digits_inputs inputs = {images[image]};
    digits_outputs outputs = {made};
    volatile unsigned char *low, *here = (unsigned char *)__builtin_frame_address(0) - NEAR;
    for (low = here - PAINTED; low < here; low++)
        *low = 0xa5;
    if (digits_run(self, &inputs, &outputs, arena) != DIGITS_DONE)
        return 0;
    for (low = here - PAINTED; low < here && *low == 0xa5;)
        low++;
    return (unsigned)(here - low) + NEAR;
}

void start(void)
{
    struct digits self;
    unsigned right = 0, stack = 0;
    int image;
    *(volatile unsigned *)0xe000ed88 |= 0xf << 20;      /* the floating-point unit */
    __asm__ volatile("dsb\n isb");
    if (digits_init(&self, 0) == DIGITS_DONE)
        for (image = 0; image < IMAGES; image++) {
            unsigned used = run(&self, image);
            stack = used > stack ? used : stack;
            right += used && !memcmp(made, logits[image], sizeof made);
        }
    say("right ", right);
    say("stack ", stack);
    host(0x18, (const void *)0x20026);                  /* exit */
    for (;;)
        ;
}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="the figures for scripts")
    args = parser.parse_args()
    if missing := [tool for tool in (CC, EMULATOR) if shutil.which(tool) is None]:
        print(f"{missing[0]} must be installed", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        figures = measured(Path(folder))
    for name, value in figures.items():
        print(f"digits_cortex_m_{name} {value}")
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")
    return int(figures["right"] != figures["images"])


def measured(folder: Path) -> dict[str, int]:
    """Bytes and counts by name."""
    module = lockstep.compile(str(DIGITS), "cpu")
    made = export(module, folder, "digits", machine="cortex-m7", apart=False)
    images, _ = held_out()
    logits = [module({"image": image[None]})["logits"] for image in images]
    for name, text in (("images.h", _arrays(images, logits)), ("firmware.c", FIRMWARE),
                       ("layout.ld", LAYOUT)):
        (folder / name).write_text(text)
    subprocess.run([CC, *FLAGS, "-T", "layout.ld", "-o", "firmware.elf", "firmware.c", "digits.o"],
                   cwd=folder, check=True)
    done = subprocess.run(
        [EMULATOR, "-M", "mps2-an500", "-nographic", "-semihosting", "-kernel", "firmware.elf"],
        cwd=folder, capture_output=True, text=True, check=False, timeout=120,
        stdin=subprocess.DEVNULL)
    said = dict(line.split() for line in (done.stdout + done.stderr).splitlines()
                if len(line.split()) == 2)
    sizes = section_bytes(made.exported.code)
    return {"right": int(said.get("right", 0)), "images": len(images), "code_bytes": sizes.code,
            "constant_bytes": sizes.constants, "arena_bytes": made.exported.interface.arena_bytes,
            "stack_bytes": int(said.get("stack", 0))}


def _arrays(images: np.ndarray, logits: list[np.ndarray]) -> str:
    """The images and the outputs that are right, as bits."""
    lines = [f"enum {{ IMAGES = {len(images)} }};"]
    for name, arrays in (("images", images), ("logits", np.stack(logits))):
        rows = np.ascontiguousarray(arrays, np.float32).reshape(len(arrays), -1)
        lines += [f"static const float {name}[{rows.shape[0]}][{rows.shape[1]}] = {{",
                  *(f"  {{{', '.join(float(value).hex() + 'f' for value in row)}}},"
                    for row in rows), "};"]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())
