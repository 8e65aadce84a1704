"""How much of a multiprocessor do kernels for GPUs take, and what do their main loops consist of?

`kernels` compiles every schedule of `tests.support.gpu_schedules` at the shapes under test by
NVRTC; no GPU is needed. Prints the table of ``docs/gpu.md``, the most that any kernel of a row
takes, then

- ``gpu_kernels``: the number of kernels;
- ``gpu_registers_SM``: the most registers of a thread, for each architecture;
- ``gpu_shared_bytes``: the most shared memory of a block, on any architecture;
- ``gpu_spill_bytes``, ``gpu_local_bytes``: bytes of all threads that are spilled, and that are in
  local memory.

`sass`: products of matrices by the schedules and tiles that are shipped, and groups of networks as
`compiler.cpu_gpu_backends.gpu.schedule` schedules them, are disassembled by nvdisasm. Prints the
table of ``docs/gpu.md``: of each kernel's main loop, the innermost one with most products, the
share of products among its instructions and the other instructions for each product, and what the
kernel takes. Products are those of tensor cores, else multiply-adds of the kind that the loop has
most of.

With ``--json`` they report every kernel. Exit status 2 without NVRTC or nvdisasm.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace

import numpy as np

from bench.frame import Bench, Sheet
from compiler.cpu_gpu_backends.gpu.flat_inputs import with_flat_inputs
from compiler.cpu_gpu_backends.gpu.group_tiles import OFFERED_GROUPS, tile_groups
from compiler.cpu_gpu_backends.gpu.lowering import passes
from compiler.cpu_gpu_backends.gpu.nvrtc import Resources, compile_cuda, nvrtc_version
from compiler.cpu_gpu_backends.gpu.schedule import own_schedule
from compiler.cpu_gpu_backends.gpu.segment import ValueForms
from compiler.cpu_gpu_backends.gpu.tensor_tiles import OFFERED, tensor_product_of
from compiler.cpu_gpu_backends.groups import recipe_of, unscheduled
from compiler.cpu_gpu_backends.simt.generate import generate, generate_all
from compiler.graph import Builder, Graph, TensorType
from compiler.graph.fusion import fuse
from compiler.graph.passes.pipeline import optimize
from compiler.ir import Program
from compiler.ops.records.operator import Kind
from compiler.ops.registry import find
from compiler.schedule import Schedule
from tests.support.gpu_cases import CASES, CUDA_CASES
from tests.support.gpu_schedules import (LARGE, matmul, matmul_tensor_cores, schedule_matmul,
                                         schedule_tensor_cores)
from tests.support.integer_graphs import Net
from tests.support.sass import disassembled, main_loop

ARCHITECTURES = ("sm_80", "sm_90")
COLUMNS = ("of", "kernels", *(f"registers, {arch}" for arch in ARCHITECTURES),
           "shared bytes", "spilled bytes", "local bytes")
GROUP_ARCHITECTURES = ("", "sm_90a")        # in place of these, of products by groups of warps
LOOP_COLUMNS = ("kernel", "tensor cores",
                *(f"{what} {arch[3:]}" for what in ("share", "others", "regs")
                  for arch in ARCHITECTURES), "shared", "spilled", "local")
Found = Mapping[str, Mapping[str, Resources]]
"""Resources by architecture and kernel."""

BENCH = Bench(__file__, __doc__)


@BENCH.part()
def kernels(sheet: Sheet) -> None:
    version = nvrtc_version()
    codes = generate_all([case.program for case in (*CASES, *CUDA_CASES)], "cuda")
    found = resources(codes[0].text)
    print(table(found, version))
    for name, value in figures(found).items():
        sheet.figure(name, value)
    for arch, taken in found.items():
        for name, one in taken.items():
            sheet.row({"arch": arch, "kernel": name, **asdict(one)})


@BENCH.part(extra=True)
def sass(sheet: Sheet) -> None:
    version, found = nvrtc_version(), list(loops())
    print(loop_table(found, version))
    for record in found:
        sheet.row(record)


def markdown(rows: Sequence[Sequence[object]], note: str) -> str:
    """A table in Markdown, whose first row is its head, and a note."""
    head, *others = rows
    return "\n".join([*(f"| {' | '.join(map(str, row))} |" for row in (
        head, ["---"] * len(head), *others)), "", note])


def resources(text: str) -> dict[str, dict[str, Resources]]:
    """The resources of a CUDA text's kernels, in order of their names."""
    return {arch: dict(sorted(compile_cuda(text, arch).resources.items()))
            for arch in ARCHITECTURES}


def table(found: Found, version: str) -> str:
    """A table in Markdown: a row for each kind of kernel and type, with the maximum over shapes."""
    kinds: dict[str, list[str]] = {}
    for name in found[ARCHITECTURES[0]]:
        _, *words = name.split("_")         # the number of the kernel in its program
        kinds.setdefault(" ".join(words[:2]), []).append(name)
    rows: list[Sequence[object]] = [COLUMNS]
    for kind, names in kinds.items():
        taken = [[found[arch][name] for name in names] for arch in ARCHITECTURES]
        every = [one for several in taken for one in several]
        rows.append((kind, len(names), *(max(r.registers for r in several) for several in taken),
                     max(r.shared_bytes for r in every), max(r.spill_bytes for r in every),
                     max(r.local_bytes for r in every)))
    return markdown(rows, f"NVRTC {version}; registers are those of a thread, shared bytes those "
                          f"of a block.\n")


def figures(found: Found) -> dict[str, int]:
    """The counts and maxima over all kernels, by name of the figure."""
    every = [one for taken in found.values() for one in taken.values()]
    return {"gpu_kernels": len(found[ARCHITECTURES[0]]),
            **{f"gpu_registers_{arch}": max(one.registers for one in taken.values())
               for arch, taken in found.items()},
            "gpu_shared_bytes": max(one.shared_bytes for one in every),
            "gpu_spill_bytes": sum(one.spill_bytes for one in every),
            "gpu_local_bytes": sum(one.local_bytes for one in every)}


def programs() -> Iterator[tuple[str, Program]]:
    """What is compiled, by name."""
    product = matmul(4096, 4096, 4096, "float32")
    yield "float32 128x128", schedule_matmul(product, "kernel", LARGE).program
    for kind, turned in (("f16", ""), ("f16", "b"), ("bf16", ""), ("tf32", ""), ("s8", ""),
                         ("s8", "b")):
        for tiles in OFFERED if kind != "bf16" else OFFERED[:1]:
            product = matmul_tensor_cores(4096, 4096, 4096, kind, transposed=turned)
            name = f"{kind} {tiles.rows}x{tiles.columns}{', b by rows' if turned else ''}"
            yield name, schedule_tensor_cores(product, "kernel", tiles).program
    for kind in ("f16", "s8"):
        for tiles in OFFERED_GROUPS:
            s = Schedule([matmul_tensor_cores(4096, 4096, 4096, kind)], "kernel")
            product = tensor_product_of(s.program)
            assert product
            tile_groups(s, product, tiles)
            yield f"{kind} {tiles.rows}x{tiles.columns} by groups", s.program
    ragged = matmul_tensor_cores(4000, 4000, 1000, "f16")
    yield "f16 128x128, ragged", schedule_tensor_cores(ragged, "kernel", OFFERED[1]).program
    yield "int8 dense, 512 x 768 to 3072", _group("dense", (512, 768), 3072)
    yield "int8 convolution 1x1, 2048 to 512, 14x14", _group("conv", (1, 2048, 14, 14), 512, (1, 1))
    window = (3, 3), (1, 1), (1,) * 4
    for batch, channels, size in ((1, 64, 56), (1, 128, 28), (1, 256, 14), (1, 512, 7),
                                  (64, 256, 14)):
        name = f"convolution 3x3, {channels} to {channels}, {batch} x {size}x{size}"
        yield f"int8 {name}", _group("conv", (batch, channels, size, size), channels, *window)
        yield f"f16 {name}", _halves(batch, channels, size)


def _group(kind: str, shape: tuple[int, ...], *arguments: object) -> Program:
    """A layer of int8 networks."""
    net = Net()
    return _product(optimize(net.graph(getattr(net, kind)(net.input(*shape), *arguments)),
                             passes(ValueForms(("int8",)))), "s8")


def _halves(batch: int, channels: int, size: int) -> Program:
    """A convolution of float32 with its rectifier, in the precision f16."""
    net = Builder("layer")
    net.add_input("x", TensorType((batch, channels, size, size), "float32"))
    net.add_constant("w", np.ones((channels, channels, 3, 3), np.float32))
    net.add_constant("b", np.ones(channels, np.float32))
    net.emit("conv2d", "conv", ["x", "w", "b"], "c", strides=(1, 1), pads=(1,) * 4)
    net.emit("relu", "relu", ["c"], "y")
    return _product(optimize(net.finish(["y"]), passes(ValueForms(("float32",), "float16"))),
                    "f16")


def _product(graph: Graph, kind: str) -> Program:
    """The scheduled program of the only group that is a product."""
    group, = (group for group in fuse(graph).groups
              if any(find(node.op).kind is Kind.COMPLEX for node in group.nodes))
    return own_schedule(with_flat_inputs(unscheduled(recipe_of(graph, group))), (kind,)).program


def loops() -> Iterator[dict]:
    """A record for each kernel and architecture. Raises BuildError."""
    for name, program in programs():
        code = generate(replace(program, name="kernel"), "cuda")
        text, launch = code.text, code.launches[0]
        for arch in GROUP_ARCHITECTURES if "wgmma" in text else ARCHITECTURES:
            if not arch:
                continue
            cubin = compile_cuda(text, arch)
            loop = main_loop(disassembled(cubin.image)["k0_kernel"])
            taken = cubin.resources["k0_kernel"]
            taken = replace(taken, shared_bytes=taken.shared_bytes + launch.shared_bytes)
            yield {"kernel": name, "arch": arch, "tensor": loop.tensor, "products": loop.products,
                   "share": round(loop.share, 2), "others": round(loop.others, 2),
                   **asdict(taken), "instructions": dict(loop.counts.most_common())}


def loop_table(found: list[dict], version: str) -> str:
    """A table in Markdown, a row for each kernel."""
    kernels: dict[str, list[dict]] = {}
    for record in found:
        kernels.setdefault(record["kernel"], []).append(record)
    rows: list[Sequence[object]] = [LOOP_COLUMNS]
    for name, records in kernels.items():
        rows.append((name, "yes" if records[0]["tensor"] else "no",
                     *(record[key] if record else "" for key in ("share", "others", "registers")
                       for record in [*[None] * (len(ARCHITECTURES) - len(records)), *records]),
                     *(max(record[key] for record in records)
                       for key in ("shared_bytes", "spill_bytes", "local_bytes"))))
    return markdown(rows, f"NVRTC {version}.")
