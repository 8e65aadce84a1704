"""Scripts for Vivado, as far as they can be checked without Vivado."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from compiler.errors import RequestError
from fpga.zynq.export import vivado_files

TCLSH = shutil.which("tclsh")
needs_tcl = pytest.mark.skipif(TCLSH is None, reason="needs tclsh")
VIVADO = Path(__file__).parent / "vivado.tcl"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("zynq")
    for name, text in {**vivado_files(50), "lockstep.v": ""}.items():
        (made / name).write_text(text)
    return made


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


@pytest.mark.parametrize("clock_mhz", [9, 251])
def test_a_clock_that_the_processor_cannot_give_is_refused(clock_mhz):
    with pytest.raises(RequestError, match=re.escape(
            f"--clock-mhz must be 10 to 250 on a Zynq, not {clock_mhz}")):
        vivado_files(clock_mhz)
