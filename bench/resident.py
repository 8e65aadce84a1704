"""Does a process grow that makes tokens and calls modules in threads for a long time?

    python -m bench.resident [decoder|modules|both] [--minutes N] [--threads N] [--target T]

Decodes by one thread and calls three networks in turn by others. Prints, four times a minute, how
much has been done, the resident memory and what the allocator has given out (`malloc_info`: in
use, in all arenas), in MB, and at the end ``name value`` lines:

- ``resident_tokens``, ``resident_calls``: how many were made;
- ``resident_megabytes``: the memory at the end;
- ``resident_growth_megabytes``: the memory at the end less that after the first quarter;
- ``resident_in_use_growth_megabytes``: the same of what is in use;
- ``resident_trimmed_megabytes``: the memory when the allocator has given back what is free.

An arena keeps the most that its threads needed at once: steps that end are no leak, a growth of
what is in use is one.
"""

import argparse
import ctypes
import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import lockstep
from bench.decode import sizes_of, step
from lockstep import testing
from lockstep.testing.networks import decoders

TURN = 15.0     # seconds


def resident_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(found[1]) << 10 if found else 0


def in_use_bytes() -> int:
    """Bytes of the C library's allocator that somebody has, in all arenas."""
    libc, text, size = ctypes.CDLL(None), ctypes.c_char_p(), ctypes.c_size_t()
    libc.open_memstream.restype = ctypes.c_void_p
    stream = ctypes.c_void_p(libc.open_memstream(ctypes.byref(text), ctypes.byref(size)))
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    last = (text.value or b"").decode().rpartition("</heap>")[2]
    libc.free(text)
    sizes = {kind: int(found) for kind, found in re.findall(
        r'type="(fast|rest|mmap|current)"[^/]* size="(\d+)"', last)}
    return sizes["current"] + sizes["mmap"] - sizes["fast"] - sizes["rest"]


def decoding(target: str) -> Callable[[], object]:
    """A function that makes a token."""
    net, model = step("llama", sizes_of("llama", 1, 64), 64)
    decode = lockstep.decoder(model, target, states=decoders.states(net))
    given = {"embeddings": np.zeros((1, 64), np.float32)}

    def token() -> None:
        if decode.position == decode.places:
            decode.reset()
        decode(given)

    return token


def calling(target: str) -> Callable[[], object]:
    """A function that calls three networks; several threads may."""
    modules = [lockstep.compile(model, target) for model in (
        testing.digits(), testing.keywords(int8=True), testing.squeezenet(32))]
    given = [{port.name: np.zeros(port.shape, np.float32) for port in module.inputs}
             for module in modules]

    def call() -> None:
        for module, arrays in zip(modules, given, strict=True):
            module(arrays)

    return call


def repeated(work: Callable[[], object], done: list[int], stopped: threading.Event
             ) -> threading.Thread:
    """A thread that works until `stopped`; `done` counts how often."""
    def repeat() -> None:
        while not stopped.is_set():
            work()
            done[0] += 1

    thread = threading.Thread(target=repeat)
    thread.start()
    return thread


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="both", choices=("decoder", "modules", "both"))
    parser.add_argument("--minutes", type=float, default=4.0, help="(default %(default)s)")
    parser.add_argument("--threads", type=int, default=4, help="that call (default %(default)s)")
    parser.add_argument("--target", default="cpu", help="(default %(default)s)")
    args = parser.parse_args()
    token = decoding(args.target) if args.what != "modules" else None
    call = calling(args.target) if args.what != "decoder" else None
    tokens, calls, stopped, rows = [0], [[0] for _ in range(args.threads)], threading.Event(), []
    threads = [repeated(token, tokens, stopped)] if token else []
    threads += [repeated(call, done, stopped) for done in calls] if call else []
    try:
        for _ in range(max(2, round(60 * args.minutes / TURN))):
            time.sleep(TURN)
            rows.append((resident_bytes() / 1e6, in_use_bytes() / 1e6))
            made = 3 * sum(done for done, in calls)
            print(f"{tokens[0]} tokens, {made} calls: {rows[-1][0]:.1f} MB, "
                  f"{rows[-1][1]:.2f} in use", flush=True)
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
    growth = np.subtract(rows[-1], rows[len(rows) // 4])
    print("resident_tokens", tokens[0])
    print("resident_calls", made)
    print("resident_megabytes", f"{rows[-1][0]:.1f}")
    print("resident_growth_megabytes", f"{growth[0]:.1f}")
    print("resident_in_use_growth_megabytes", f"{growth[1]:.2f}")
    ctypes.CDLL(None).malloc_trim(0)
    print("resident_trimmed_megabytes", f"{resident_bytes() / 1e6:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
