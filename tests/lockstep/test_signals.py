"""Commands that are told to end: with what status, and what they leave behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compiler import processes
from tests.compiler.test_processes import SIGNALS, TOOL, started

HOUSE = Path(__file__).parents[2]
DIGITS = HOUSE / "examples" / "digits" / "digits-int8.onnx"


@pytest.mark.parametrize(("group", "number", "status"), [
    (False, *SIGNALS[0]), pytest.param(True, *SIGNALS[1], marks=pytest.mark.slow),
    pytest.param(True, *SIGNALS[0], marks=pytest.mark.slow),
    pytest.param(False, *SIGNALS[1], marks=pytest.mark.slow)])
def test_a_command_that_waits_for_the_compiler(tmp_path, number, status, group):
    compiler = tmp_path / "c++"
    compiler.write_text(TOOL.replace("#!/bin/sh", '#!/bin/sh\n[ "$1" = --version ] && exit 0\n'
                                     f'set {tmp_path / "started"}'))
    compiler.chmod(0o755)
    cache = tmp_path / "cache"
    command = subprocess.Popen(
        [sys.executable, "-m", "lockstep", "run", DIGITS, "--target", "accel:tiny-1x4x4"],
        cwd=HOUSE, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "CXX": str(compiler), "LOCKSTEP_CACHE": str(cache)})
    child = started(tmp_path / "started")
    assert list((cache / "builds").iterdir())
    (os.killpg if group else os.kill)(command.pid, number)
    assert command.communicate(timeout=60) == (b"", b"") and command.returncode == status
    assert not processes._is_running(child) and not list((cache / "builds").iterdir())


def test_a_signal_that_is_ignored_stays_ignored():
    """As a shell starts what is to run in the background."""
    code = ("import os, signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
            "from compiler.processes import end_by_signals\nend_by_signals()\n"
            "os.kill(os.getpid(), signal.SIGINT)")
    assert subprocess.run([sys.executable, "-c", code], cwd=HOUSE).returncode == 0
