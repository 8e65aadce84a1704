"""Tools end with the process that started them, and a process ends when it is told to."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from compiler import processes
from compiler.processes import call_all, run_tool

TOOL = """#!/bin/sh
# A tool that starts another one and never ends.
sleep 1000 &
echo $! > "$1".new && mv "$1".new "$1"
wait
"""
SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


@pytest.fixture
def tool(tmp_path) -> list[str]:
    path = tmp_path / "tool"
    path.write_text(TOOL)
    path.chmod(0o755)
    return [str(path), str(tmp_path / "started")]


def started(path: Path) -> int:
    """The process that the tool started, as soon as it is there."""
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, "the tool must start"
        time.sleep(0.01)
    return int(path.read_text())


def require_ended(process: int) -> None:
    deadline = time.monotonic() + 10
    while processes._is_running(process):
        assert time.monotonic() < deadline, f"process {process} must end"
        time.sleep(0.01)


def python(code: str, out: int | None = None) -> subprocess.Popen[bytes]:
    house = Path(processes.__file__).parents[1]
    return subprocess.Popen([sys.executable, "-c", code], cwd=house, start_new_session=True,
                            stdout=out, stderr=subprocess.PIPE)


def test_what_a_tool_says(tmp_path):
    done = run_tool(["sh", "-c", "echo out; echo err >&2; echo $TMPDIR > kept; exit 3"], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")
    assert (tmp_path / "kept").read_text() == f"{tmp_path}\n"
    assert [one.stdout for one in call_all([["echo", str(n)] for n in range(5)])] == [
        f"{n}\n" for n in range(5)]


def test_a_tool_that_takes_too_long(tool, tmp_path):
    with pytest.raises(subprocess.TimeoutExpired):
        run_tool(tool, timeout=0.5)
    require_ended(started(tmp_path / "started"))
    assert not processes._tools


def test_an_interrupt_ends_tools_in_threads(tool, tmp_path):
    def interrupt() -> None:
        started(tmp_path / "started")
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        call_all([tool])
    thread.join()
    require_ended(started(tmp_path / "started"))


def test_a_companion_is_talked_to_and_ends_with_the_body() -> None:
    code = "import sys\nfor line in sys.stdin: print(line.upper(), end='', flush=True)"
    with tempfile.TemporaryFile("w+") as errors:
        with processes.companion([sys.executable, "-c", code], errors) as tool:
            assert tool.stdin is not None and tool.stdout is not None
            for word in ("one", "two"):
                tool.stdin.write(f"{word}\n")
                tool.stdin.flush()
                assert tool.stdout.readline() == f"{word.upper()}\n"
        require_ended(tool.pid)


def test_tools_of_a_killed_process_end(tool, tmp_path):
    parent = python(f"from compiler.processes import run_tool\nrun_tool({tool})")
    child = started(tmp_path / "started")
    time.sleep(0.2)                         # what it starts is told to the guardian just then
    parent.kill()
    parent.communicate()
    require_ended(child)


@pytest.mark.parametrize("group", [False, True], ids=["alone", "group"])
@pytest.mark.parametrize(("number", "status"), SIGNALS)
def test_a_signal_ends_tools_and_removes_what_was_being_made(tool, tmp_path, number, status,
                                                             group):
    (tmp_path / "scratch").mkdir()
    parent = python(f"""
from pathlib import Path
from compiler.processes import end_by_signals, hold, remove_at_end, run_tool
end_by_signals()
with remove_at_end(Path({str(tmp_path / "scratch")!r})):
    run_tool({tool}, Path({str(tmp_path / "scratch")!r}))
print("never here")
""", subprocess.PIPE)
    child = started(tmp_path / "started")
    (os.killpg if group else os.kill)(parent.pid, number)
    assert parent.communicate(timeout=60) == (b"", b"") and parent.returncode == status
    assert not processes._is_running(child) and not (tmp_path / "scratch").exists()


def test_an_entry_of_the_cache_is_not_begun_while_the_process_ends(tmp_path, monkeypatch):
    """`end` has removed what lies about, and another thread is about to make a folder."""
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path / "cache"))
    parent = python("""
import threading, time
from compiler import kept, processes
remove = processes.remove
def removed(path):
    remove(path)
    if not path.suffix:
        time.sleep(1)
def begun(path):
    remove(path)
    if path.name.startswith("build-") and not path.suffix:
        threading.Thread(target=processes.end, args=(143,)).start()
        time.sleep(0.3)
processes.remove, kept.remove = removed, begun
kept.build_once("kernels", "0" * 32, None, lambda folder: time.sleep(9))
""", subprocess.PIPE)
    assert parent.communicate(timeout=60) == (b"", b"") and parent.returncode == 143
    assert list((tmp_path / "cache" / "builds").iterdir()) == []


@pytest.mark.parametrize(("number", "status"), SIGNALS)
def test_native_code_does_not_delay_the_end(number, status):
    """A mutex that is locked twice waits for ever, in C, and signals do not wake it."""
    parent = python("""
import ctypes
from compiler.processes import end_by_signals
end_by_signals()
mutex, libc = ctypes.create_string_buffer(64), ctypes.CDLL(None)
libc.pthread_mutex_lock(mutex)
print("ready", flush=True)
libc.pthread_mutex_lock(mutex)
""", subprocess.PIPE)
    assert parent.stdout and parent.stdout.readline() == b"ready\n"
    parent.send_signal(number)
    assert parent.communicate(timeout=60)[1] == b"" and parent.returncode == status


def test_a_forked_child_hears_its_own_signals():
    code = """
import os, signal, time
from compiler.processes import end_by_signals, run_tool
end_by_signals()
run_tool(["true"])
child = os.fork()
if not child:
    run_tool(["true"])
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
assert os.waitpid(child, 0)[1] == signal.SIGTERM
run_tool(["true"])
"""
    done = python(code)
    assert done.communicate(timeout=60)[1] == b"" and done.returncode == 0
