"""What kernels take: table, figures and JSON, without a compiler. The page is held to the table in
``tests/compiler/cpu_gpu_backends/simt/test_kernels.py``, where the kernels are compiled.
"""

import json
import sys

import pytest

from bench.gpu import resources as gpu_resources
from compiler.cpu_gpu_backends.gpu.nvrtc import Resources

SUM = {"k0_sum_int8_4": Resources(9, 0, 0, 0)}
FOUND = {"sm_80": {"k0_mma_f16_32_0": Resources(60, 10240, 0, 0),
                   "k0_mma_f16_32_1": Resources(40, 20480, 8, 16), **SUM},
         "sm_90": {"k0_mma_f16_32_0": Resources(63, 10240, 0, 0),
                   "k0_mma_f16_32_1": Resources(50, 10240, 0, 0), **SUM}}


@pytest.fixture
def measured(monkeypatch):
    monkeypatch.setattr(gpu_resources, "resources", lambda text: FOUND)
    monkeypatch.setattr(gpu_resources, "CASES", gpu_resources.CASES[:1])
    monkeypatch.setattr(gpu_resources, "CUDA_CASES", ())
    monkeypatch.setattr(gpu_resources, "nvrtc_version", lambda: "13.0")


def test_a_row_is_the_most_that_its_kernels_take(measured, capsys) -> None:
    assert gpu_resources.BENCH.main([]) == 0
    rows, values = capsys.readouterr().out.split("\n\n")[::2]
    assert rows.splitlines()[2:] == ["| mma f16 | 2 | 60 | 63 | 20480 | 8 | 16 |",
                                     "| sum int8 | 1 | 9 | 9 | 0 | 0 | 0 |"]
    assert values.splitlines() == ["gpu_kernels 3", "gpu_registers_sm_80 60",
                                   "gpu_registers_sm_90 63", "gpu_shared_bytes 20480",
                                   "gpu_spill_bytes 8", "gpu_local_bytes 16"]


def test_every_kernel_as_json(measured, tmp_path) -> None:
    file = tmp_path / "r.json"
    assert gpu_resources.BENCH.main(["--json", str(file)]) == 0
    found = json.loads(file.read_text())
    assert found["figures"]["gpu_spill_bytes"] == 8
    assert {"arch": "sm_80", "kernel": "k0_mma_f16_32_1", "registers": 40, "shared_bytes": 20480,
            "spill_bytes": 8, "local_bytes": 16} in found["rows"]


def test_without_nvrtc(monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", None)
    assert gpu_resources.BENCH.main([]) == 2
    assert capsys.readouterr().err == (
        "bench gpu.resources: NVRTC must be installed to compile CUDA: install the extra 'gpu' "
        "(cuda-bindings, nvidia-cuda-nvrtc)\n")
