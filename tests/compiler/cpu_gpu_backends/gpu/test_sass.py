"""Main loops of machine code: which one it is, and what it consists of."""

import shutil

import pytest

from bench.gpu import resources as gpu_sass
from tests.support import sass
from compiler.cpu_gpu_backends.gpu.nvrtc import compile_cuda
from tests.support.sass import disassembled, main_loop
from tests.support.gpu_schedules import matmul_tensor_cores, schedule_tensor_cores
from compiler.cpu_gpu_backends.gpu.tensor_tiles import OFFERED
from compiler.cpu_gpu_backends.simt.generate import generate
from compiler.native import BuildError
from tests.support.nvrtc import require_nvrtc

TEXT = """\
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   FFMA R2, R3, R4, R2 ;
        /*0020*/               @P1 FFMA R5, R3, R4, R5 ;
        /*0030*/                   LDS.128 R4, [R1] ;
.L_x_0:
        /*0040*/                   HMMA.16816.F32 R8, R4, R6, R8 ;
        /*0050*/                   LDSM.16.M88.4 R4, [R1] ;
        /*0060*/                   IADD3 R1, R1, 0x10, RZ ;
        /*0070*/              @!P0 BRA `(.L_x_0) ;
        /*0080*/               @P2 BRA `(.L_x_1) ;
        /*0090*/                   EXIT ;
.L_x_2:
        /*00a0*/                   BRA `(.L_x_2);
        /*00b0*/                   NOP;
"""


def test_the_main_loop_is_the_innermost_with_most_products() -> None:
    loop = main_loop(TEXT.splitlines())
    assert dict(loop.counts) == {"HMMA": 1, "LDSM": 1, "IADD3": 1, "BRA": 1}
    assert (loop.tensor, loop.products, loop.others, loop.share) == (1, 1, 3, 0.25)


def test_products_of_threads_count_where_tensor_cores_have_none() -> None:
    lines = [line for line in TEXT.splitlines() if "HMMA" not in line and "L_x_0" not in line]
    loop = main_loop(lines)
    assert (loop.tensor, loop.products, loop.instructions) == (0, 2, 6)


def test_without_loops_all_of_a_kernel_counts() -> None:
    assert main_loop(TEXT.splitlines()[2:5]).instructions == 3


def test_without_nvdisasm(monkeypatch) -> None:
    monkeypatch.setattr(sass, "files", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(BuildError, match="^nvdisasm must be installed to read machine code: "
                                         "install the extra .gpu. "
                                         r"\(nvidia-cuda-nvdisasm\)$"):
        disassembled(b"")


RECORDS = [{"kernel": "product", "arch": arch, "tensor": 32, "products": 32, "share": 0.5,
            "others": 1.0, "registers": registers, "shared_bytes": 1024, "spill_bytes": 0,
            "local_bytes": 0, "instructions": {"HMMA": 32}}
           for arch, registers in (("sm_80", 100), ("sm_90", 104))]


def test_a_row_for_each_kernel(monkeypatch, capsys) -> None:
    monkeypatch.setattr(gpu_sass, "loops", lambda: iter(RECORDS))
    monkeypatch.setattr(gpu_sass, "nvrtc_version", lambda: "13.0")
    assert gpu_sass.BENCH.main(["--only", "sass"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| product | yes | 0.5 | 0.5 | 1.0 | 1.0 | 100 | 104 | 1024 | 0 | 0 |", "", "NVRTC 13.0."]


@pytest.mark.slow
def test_loops_of_tensor_cores_are_tight() -> None:
    """At most two other instructions for each product, nothing spilled."""
    product = matmul_tensor_cores(4096, 4096, 4096, "f16")
    require_nvrtc()
    cubin = compile_cuda(generate(schedule_tensor_cores(product, "p", OFFERED[1]).program).text)
    try:
        loop = main_loop(disassembled(cubin.image)["k0_p"])
    except BuildError as error:
        if "must be installed" not in str(error):
            raise
        pytest.skip(str(error))
    assert loop.tensor and loop.others <= 1
    taken = cubin.resources["k0_p"]
    assert taken.spill_bytes == taken.local_bytes == 0
