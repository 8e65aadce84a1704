"""What runs in the environment of the peers, which has nothing of ours: texts of programs and their
input. Each program takes the names of its input and of its output, both JSON.

The machine is that of `bench/accelerator/peers`: sixteen by sixteen multipliers, buffers of 32 KiB
for images, 256 KiB for weights and 128 KiB for sums, a port of 8 bytes a cycle.
"""

from typing import Any

from runtime.exporting.peers import ProductLayer

SCALESIM = """
import csv, json, os, sys
from scalesim.scale_sim import scalesim

given = json.load(open(sys.argv[1]))
folder = given["folder"]
run = scalesim(save_disk_space=True, verbose=False, config=given["config"],
               topology=given["topology"], layout=given["layout"])
run.run_scale(top_path=folder)
with open(os.path.join(folder, "run", "COMPUTE_REPORT.csv")) as file:
    rows = list(csv.reader(file))[1:]
json.dump([float(row[2]) for row in rows], open(sys.argv[2], "w"))
"""

SCALESIM_CONFIG = """
[general]
run_name = run
[architecture_presets]
ArrayHeight = 16
ArrayWidth = 16
IfmapSramSzkB = 32
FilterSramSzkB = 256
OfmapSramSzkB = 128
IfmapOffset = 0
FilterOffset = 100000000
OfmapOffset = 200000000
Dataflow = {dataflow}
Bandwidth = 8
ReadRequestBuffer = 64
WriteRequestBuffer = 64
[layout]
IfmapCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterCustomLayout = False
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = false
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
"""
"""Without a limit of the port: cycles are those of the array."""

ZIGZAG = """
import json, logging, sys
from zigzag.api import get_hardware_performance_zigzag

given = json.load(open(sys.argv[1]))
cycles = []
for layer in given["layers"]:
    _, latency, _ = get_hardware_performance_zigzag(
        [{**layer, "id": 0, "operand_source": {}}], given["accelerator"], given["mapping"],
        opt="latency", dump_folder=given["folder"], loma_show_progress_bar=False)
    cycles.append(float(latency))
json.dump(cycles, open(sys.argv[2], "w"))
"""
"""Each layer alone, as no operand stays on the chip between layers."""


def workload(layer: ProductLayer) -> dict[str, Any]:
    """A layer as ZigZag has it: a convolution of one image."""
    rows, columns = layer.outputs
    loops = {"B": layer.times, "K": layer.filters, "C": layer.channels, "OY": rows, "OX": columns,
             "FY": layer.kernel[0], "FX": layer.kernel[1]}
    return {"operator_type": "Conv", "name": layer.name,
            "equation": "O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]",
            "dimension_relations": [f"ix={layer.strides[1]}*ox+1*fx",
                                    f"iy={layer.strides[0]}*oy+1*fy"],
            "loop_dims": [*loops], "loop_sizes": [*loops.values()],
            "operand_precision": {"I": 8, "W": 8, "O": 32, "O_final": 8}}


def accelerator() -> dict[str, Any]:
    """The machine as ZigZag has it: D1 are output channels, D2 input channels."""
    return {"name": "sixteen", "memories": {
        "inp": _memory(32, "I1", 128), "wgt": _memory(256, "I2", 2048),
        "acc": _memory(128, "O", 512), "dram": _dram()},
        "operational_array": {"unit_energy": 0.04, "unit_area": 1, "dimensions": ["D1", "D2"],
                              "sizes": [16, 16]}}


def _memory(kib: int, operand: str, bits: int) -> dict[str, Any]:
    """A buffer that the whole array shares; it is read and written in the same cycle."""
    read, write = ([f"{operand}, {way}" for way in ways.split()] for ways in (
        ("tl th", "fh fl") if operand == "O" else ("tl", "fh")))
    return {"size": kib * 8192, "r_cost": 1, "w_cost": 1, "area": 0, "latency": 1,
            "operands": [operand], "served_dimensions": ["D1", "D2"],
            "ports": [_port("r_port_1", "read", bits, read),
                      _port("w_port_1", "write", bits, write)]}


def _dram() -> dict[str, Any]:
    ways = [*(f"{operand}, {way}" for operand in ("I1", "I2", "O") for way in ("fh", "tl")),
            "O, fl", "O, th"]
    return {"size": 10 ** 10, "r_cost": 1, "w_cost": 1, "area": 0, "latency": 1,
            "operands": ["I1", "I2", "O"], "served_dimensions": ["D1", "D2"],
            "ports": [_port("rw_port_1", "read_write", 64, ways)]}


def _port(name: str, kind: str, bits: int, ways: list[str]) -> dict[str, Any]:
    return {"name": name, "type": kind, "bandwidth_min": 8, "bandwidth_max": bits,
            "allocation": ways}


def mapping() -> list[dict[str, Any]]:
    """Which loops the array computes at the same time."""
    return [{"name": "default", "spatial_mapping": {"D1": ["K, 16"], "D2": ["C, 16"]},
             "memory_operand_links": {"O": "O", "W": "I2", "I": "I1"}}]
