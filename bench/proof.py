"""How long does the proof of a program of ResNet-50's size take?

Compiles ResNet-50 with random int8 weights for one machine (random weights change no address),
then proves it again, whole and with one token lost. Prints ``name value`` lines: instructions of
the program, seconds of processor time of the proof, and of the proof that fails, message included.
"""

import argparse
import sys
import time
from dataclasses import replace

from accel.machine import isa
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.mapping.target import AccelTarget
from accel.proof.legal import IllegalProgram, prove
from bench.inputs.networks import resnet50_graph
from compiler.latency_hiding import Tokens, pair_tokens

WAITS, SIGNALS = 1, 2           # bytes of a word


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", "--config", default="pynq-1x16x16")
    parser.add_argument("--size", type=int, default=224, help="pixels of the image, each way")
    args = parser.parse_args()
    machine = load_machine(args.machine)
    program = AccelTarget(machine).compile(resnet50_graph(args.size)).program
    print("proof_instructions", program.count)
    begin = time.process_time()
    prove(machine, program)
    print("proof_seconds", f"{time.process_time() - begin:.2f}")
    faulty = lose_token(machine, program)
    begin = time.process_time()
    try:
        prove(machine, faulty)
    except IllegalProgram as error:
        message = str(error)
    else:
        print("a program that has lost a token must be refused")
        return 1
    print("proof_refusal_seconds", f"{time.process_time() - begin:.2f}")
    print(message)
    return 0


def lose_token(machine: Machine, program: AccelProgram) -> AccelProgram:
    """The stream without the first token from load to gemm in its second half."""
    stream = program.instructions(machine)
    pairs = pair_tokens([one.unit for one in stream],
                        [Tokens(one.waits, one.signals) for one in stream])
    pair = pairs["load", "gemm"]
    token = pair.first_signal(program.count // 2)
    assert token is not None
    words = program.words.copy()
    words[pair.waits[token], WAITS] &= ~isa.unit_mask(["load"]) & 0xFF
    words[pair.signals[token], SIGNALS] &= ~isa.unit_mask(["gemm"]) & 0xFF
    return replace(program, words=words)


if __name__ == "__main__":
    sys.exit(main())
