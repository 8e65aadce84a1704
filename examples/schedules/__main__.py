"""Show an example: its algorithm, its schedule, and the program after each step.

``python -m examples.schedules`` lists them, ``python -m examples.schedules matmul`` shows one;
``--cuda`` adds the kernels of every step that is a program for a GPU already.
"""

import argparse
import sys
from inspect import getdoc

from compiler.cpu_gpu_backends.simt.generate import generate
from compiler.cpu_gpu_backends.simt.kernels import SimtError
from compiler.ir import Program, program_text

from . import (accel_gemm, argmax, depthwise, inline, matmul, rnn_cell, running_sum, transpose,
               vector_add)
from .example import Example

EXAMPLES = {example.name: example for module in (
    vector_add, transpose, matmul, depthwise, inline, running_sum, rnn_cell, argmax, accel_gemm)
    for example in module.EXAMPLES}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="examples.schedules")
    parser.add_argument("name", nargs="?", choices=sorted(EXAMPLES), help="which one")
    parser.add_argument("--cuda", action="store_true", help="CUDA after each step")
    args = parser.parse_args(argv)
    if args.name is None:
        for name, example in EXAMPLES.items():
            print(f"{name:20} {_paragraph(example.schedule)}")
        return 0
    return _show(EXAMPLES[args.name], args.cuda)


def _show(example: Example, cuda: bool) -> int:
    print(f"Algorithm: {_paragraph(example.algorithm)}\n\nSchedule: "
          f"{_paragraph(example.schedule)}\n")
    for step, program in (("", example.program()), *example.scheduled().steps):
        print(f"# {step}\n{program_text(program)}" if step else program_text(program))
        if cuda and step:
            print(_cuda(program))
    wrong = list(example.differences())
    print(f"{wrong[0]} changes the result" if wrong else "Every step gives what NumPy does.")
    return 1 if wrong else 0


def _paragraph(function) -> str:
    return " ".join((getdoc(getattr(function, "func", function)) or "").split())


def _cuda(program: Program) -> str:
    try:
        return generate(program).text
    except SimtError as error:
        return f"// not for a GPU yet: {str(error).splitlines()[0]}\n"


if __name__ == "__main__":
    sys.exit(main())
