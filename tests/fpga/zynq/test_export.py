# amaranth: UnusedElaboratable=no
"""What Vivado gets, as far as it can be checked without Vivado."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fpga.zynq import __main__ as command
from fpga.zynq.export import export
from tests.support.machines import TINY
from tests.support.verilator_lint import assert_clean

TCLSH = shutil.which("tclsh")
needs_tcl = pytest.mark.skipif(TCLSH is None, reason="needs tclsh")
VIVADO = Path(__file__).parent / "vivado.tcl"

ADDRESS = "addr prot valid ready".split()
CHANNELS = {"aw": ADDRESS, "w": "data strb valid ready".split(), "b": "resp valid ready".split(),
            "ar": ADDRESS, "r": "data resp valid ready".split()}
BURSTS = {"aw": "id len size burst cache".split(), "w": ["last"], "b": ["id"],
          "ar": "id len size burst cache".split(), "r": ["id", "last"]}
"""The signals that AXI4 has beyond AXI4-Lite."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("zynq") / "made"
    export(TINY, 50, made)
    return made


def test_verilog_has_no_errors(folder):
    assert_clean(folder / "lockstep.v", "lockstep")


def test_ports_are_what_vivado_takes_for_interfaces(folder):
    text = (folder / "lockstep.v").read_text()
    module = text[text.index("\nmodule lockstep("):]
    ports = set(re.findall(r"\w+", module[:module.index(";")])) - {"module", "lockstep"}
    names = {f"{c}{one}" for c, all_ in CHANNELS.items() for one in all_}
    wanted = {f"s_axi_control_{one}" for one in names}
    wanted |= {f"m_axi_gmem_{one}" for one in
               names | {f"{c}{one}" for c, all_ in BURSTS.items() for one in all_}}
    assert ports == wanted | {"ap_clk", "ap_rst_n", "irq"}
    assert re.search(r'ASSOCIATED_BUSIF s_axi_control:m_axi_gmem, ASSOCIATED_RESET ap_rst_n" \*\)\n'
                     r"  input ap_clk;", module)
    assert re.search(r'X_INTERFACE_INFO = "xilinx.com:signal:interrupt:1.0 irq INTERRUPT", '
                     r'X_INTERFACE_PARAMETER = "SENSITIVITY LEVEL_HIGH" \*\)\n  output irq;',
                     module)


@needs_tcl
def test_scripts_are_whole(folder):
    for name in ("build.tcl", "settings.tcl"):
        found = subprocess.run(
            [TCLSH], input=f"puts [info complete [read [open {{{folder / name}}}]]]",
            capture_output=True, text=True, timeout=30)
        assert found.stdout.strip() == "1"


def run_script(folder: Path, where: Path, progress: str, slack: str):
    for path in folder.iterdir():
        shutil.copy(path, where)
    return subprocess.run([TCLSH, VIVADO, where / "build.tcl", progress, slack], cwd=where,
                          capture_output=True, text=True, timeout=30)


@needs_tcl
def test_script_leaves_bitstream_and_description(folder, tmp_path):
    done = run_script(folder, tmp_path, "100%", "0.25")
    assert (done.returncode, done.stderr) == (0, "")
    assert "lockstep.bit: 50 MHz, slack 0.25 ns" in done.stdout
    assert (tmp_path / "lockstep.bit").is_file() and (tmp_path / "lockstep.hwh").is_file()
    calls = (tmp_path / "calls").read_text()
    order = ["create_project -force lockstep", "-part xc7z020clg400-1", "add_files",
             "create_bd_design system", "CONFIG.PCW_FPGA0_PERIPHERAL_FREQMHZ 50",
             "create_bd_cell -type module -reference lockstep lockstep_0",
             "Master /ps/M_AXI_GP0 Slave /lockstep_0/s_axi_control",
             "Master /lockstep_0/m_axi_gmem Slave /ps/S_AXI_HP0",
             "connect_bd_net /lockstep_0/irq /ps/IRQ_F2P", "assign_bd_address",
             "validate_bd_design", "make_wrapper", "launch_runs impl_1 -to_step write_bitstream"]
    places = [calls.index(one) for one in order]
    assert places == sorted(places)
    assert "CONFIG.PCW_S_AXI_HP0_DATA_WIDTH 64" in calls
    assert calls.count("update_compile_order -fileset sources_1") == 2


@needs_tcl
@pytest.mark.parametrize("left_out, text", [
    ("assign_bd_address\n", "/ps/M_AXI_GP0 has no address segment"),
    ("    CONFIG.PCW_USE_S_AXI_HP0 1 \\\n", "there is no pin /ps/S_AXI_HP0"),
    ("    CONFIG.PCW_USE_FABRIC_INTERRUPT 1 \\\n", "there is no pin /ps/IRQ_F2P"),
    ("connect_bd_net [get_bd_pins /${name}_0/irq] [get_bd_pins /ps/IRQ_F2P]\n",
     "/ps/IRQ_F2P is not connected"),
    ("    CONFIG.PCW_EN_RST0_PORT 1 \\\n", "there is no clock or reset for Auto: PCW_EN_RST0_PORT"),
    ("set_property top system_wrapper [current_fileset]\n", "the top must be the design's wrapper"),
    ("wait_on_run impl_1\n", "build.tcl: running; look into project/lockstep.runs")])
def test_a_script_that_lacks_a_step_fails(folder, tmp_path, left_out, text):
    copy = shutil.copytree(folder, tmp_path / "copy")
    script = (copy / "build.tcl").read_text()
    assert script.count(left_out) == 1
    (copy / "build.tcl").write_text(script.replace(left_out, ""))
    done = run_script(copy, tmp_path, "100%", "0.25")
    assert done.returncode == 1 and text in done.stderr
    assert not (tmp_path / "lockstep.bit").exists()


@needs_tcl
@pytest.mark.parametrize("progress, slack, text", [
    ("100%", "-0.3", "the clock of 50 MHz is missed by 0.3 ns; export again with a lower"),
    ("40%", "1", "build.tcl: failed; look into project/lockstep.runs")])
def test_script_fails_where_vivado_does(folder, tmp_path, progress, slack, text):
    done = run_script(folder, tmp_path, progress, slack)
    assert done.returncode == 1 and text in done.stderr
    assert not (tmp_path / "lockstep.bit").exists()


@pytest.mark.parametrize("arguments, text", [
    (["--machine", "nope"], "fpga.zynq: Machine must be one of "),
    (["--clock-mhz", "400"], "--clock-mhz must be 10 to 250, not 400")])
def test_wrong_requests(monkeypatch, capsys, tmp_path, arguments, text):
    monkeypatch.setattr("sys.argv", ["zynq", "-o", str(tmp_path), *arguments])
    try:
        assert command.main() == 2
    except SystemExit as error:
        assert error.code == 2
    assert text in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


def test_command(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("fpga.zynq.export.zynq_verilog", lambda machine, clock_mhz: "")
    monkeypatch.setattr("sys.argv", ["zynq", "--machine", "tiny-1x4x4", "-o", str(tmp_path / "x")])
    assert command.main() == 0
    assert "tiny-1x4x4 at 100 MHz; in that folder run `vivado" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "x").iterdir()} == {
        "lockstep.v", "settings.tcl", "build.tcl"}
