"""Do calls stay fast, right and lean: of long networks, in many threads, and for a long time?

`threads` runs ``--each`` inferences of the digits in each of eight threads, on the host, and on the
accelerator with its functional and cycle simulators. Compares every output with that of a single
thread, to the bit. Prints ``threads_inferences`` and ``threads_wrong``.

`chains` are networks of products with matrices of 8 by 8, no two of which are fused, or of sums
with vectors, 64 of which are. Prints for each chain, in seconds of processor time, with an empty
cache:

- ``chain_KIND_N_compile_seconds``: of `lockstep.compile`;
- ``chain_KIND_N_first_seconds``: of the first call, which makes what calls the kernels;
- ``chain_KIND_N_second_seconds``: of the next one;
- ``chain_KIND_N_ratio``: the first two together by those of the chain before it, and by how much
  longer that chain is; 1 where time grows in proportion.

`resident` decodes by one thread and calls three networks in turn by others. Prints, four times a
minute, how much has been done, the resident memory and what the allocator has given out
(`malloc_info`: in use, in all arenas), in MB, and at the end

- ``resident_tokens``, ``resident_calls``: how many were made;
- ``resident_megabytes``: the memory at the end;
- ``resident_growth_megabytes``: the memory at the end less that after the first quarter;
- ``resident_in_use_growth_megabytes``: the same of what is in use;
- ``resident_trimmed_megabytes``: the memory when the allocator has given back what is free.

An arena keeps the most that its threads needed at once: steps that end are no leak, a growth of
what is in use is one.
"""

import ctypes
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import lockstep
from bench.accelerator.transformers import sizes_of, step
from bench.frame import Bench, Sheet
from compiler.graph import Builder, Graph, TensorType
from lockstep import testing
from lockstep.testing.models import DIGITS
from lockstep.testing.networks import decoders

WIDTH = 8
SHAPES = {"product": ("matmul", (WIDTH, WIDTH)), "sum": ("add", (WIDTH,))}
TURN = 15.0     # seconds

BENCH = Bench(__file__, __doc__)
BENCH.option("--target", default="cpu", help="of chains and resident")
BENCH.option("--each", type=int, default=200, help="inferences of each of the threads")
BENCH.option("--nodes", nargs="+", type=int, default=[300, 1250, 5000], help="lengths of chains")
BENCH.option("--minutes", type=float, default=4.0, help="of resident")
BENCH.option("--threads", type=int, help="(8; of resident 4, that call)")


@BENCH.part()
def threads(sheet: Sheet) -> None:
    count, wrong = (sheet.threads or 8) * sheet.each, 0
    images = np.random.default_rng(0).random((count, 1, 1, 8, 8), np.float32)
    for target, sim in (("cpu", "functional"), ("accel:tiny-1x4x4", "functional"),
                        ("accel:tiny-1x4x4", "cycle")):
        module = lockstep.compile(DIGITS, target, sim=sim)
        inputs = [{"image": image} for image in images]
        wanted = [module(one) for one in inputs]
        with ThreadPoolExecutor(sheet.threads or 8) as pool:
            wrong += sum(not np.array_equal(made["logits"], right["logits"])
                         for made, right in zip(pool.map(module, inputs), wanted, strict=True))
    sheet.figure("threads_inferences", 3 * count)
    sheet.figure("threads_wrong", wrong)
    sheet.require(not wrong)


@BENCH.part(SHAPES, extra=True)
def chains(sheet: Sheet) -> None:
    for kind in sheet.cases:
        seconds(chain(kind, 2), sheet.target)            # what is done once a process
        before = None
        for count in sheet.nodes:
            times = seconds(chain(kind, count), sheet.target)
            for name, figure in zip(("compile", "first", "second"), times, strict=True):
                sheet.figure(f"chain_{kind}_{count}_{name}_seconds", figure, ".3f")
            per_node = sum(times[:2]) / count
            if before:
                sheet.figure(f"chain_{kind}_{count}_ratio", per_node / before, ".2f")
            before = per_node


@BENCH.part(("decoder", "modules"), extra=True)
def resident(sheet: Sheet) -> None:
    token = decoding(sheet.target) if "decoder" in sheet.cases else None
    call = calling(sheet.target) if "modules" in sheet.cases else None
    tokens, calls = [0], [[0] for _ in range(sheet.threads or 4)]
    stopped, rows = threading.Event(), []
    running = [repeated(token, tokens, stopped)] if token else []
    running += [repeated(call, done, stopped) for done in calls] if call else []
    try:
        for _ in range(max(2, round(60 * sheet.minutes / TURN))):
            time.sleep(TURN)
            rows.append((resident_bytes() / 1e6, in_use_bytes() / 1e6))
            print(f"{tokens[0]} tokens, {3 * sum(map(sum, calls))} calls: {rows[-1][0]:.1f} MB, "
                  f"{rows[-1][1]:.2f} in use", flush=True)
    finally:
        stopped.set()
        for thread in running:
            thread.join()
    growth = np.subtract(rows[-1], rows[len(rows) // 4])
    sheet.figure("resident_tokens", tokens[0])
    sheet.figure("resident_calls", 3 * sum(map(sum, calls)))
    sheet.figure("resident_megabytes", rows[-1][0], ".1f")
    sheet.figure("resident_growth_megabytes", growth[0], ".1f")
    sheet.figure("resident_in_use_growth_megabytes", growth[1], ".2f")
    ctypes.CDLL(None).malloc_trim(0)
    sheet.figure("resident_trimmed_megabytes", resident_bytes() / 1e6, ".1f")


def chain(kind: str, count: int) -> Graph:
    """`count` operators, each with a constant of its own."""
    rng, (op, shape) = np.random.default_rng(0), SHAPES[kind]
    net = Builder("chain")
    value = net.add_input("x", TensorType((1, WIDTH), "float32"))
    for number in range(count):
        constant = net.add_constant(f"c{number}", rng.standard_normal(shape).astype(np.float32))
        value = net.emit(op, f"n{number}", [value, constant], f"v{number}")
    return net.finish([value])


def seconds(graph: Graph, target: str) -> list[float]:
    """Processor time of compiling, of the first call and of the second, with an empty cache."""
    x = {"x": np.zeros((1, WIDTH), np.float32)}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LOCKSTEP_CACHE"] = folder
        moments = [time.process_time()]
        module = lockstep.compile(graph, target)
        for _ in range(3):
            moments.append(time.process_time())
            module(x)
    return np.diff(moments).tolist()


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
