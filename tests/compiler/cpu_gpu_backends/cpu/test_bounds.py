"""Native code touches nothing outside of its buffers: see `flush`."""

import os
import signal
import subprocess
import sys

import pytest


def flush(*arguments: str, cache) -> subprocess.CompletedProcess:
    """Each in a cache of its own: a planted mistake must not be found there later."""
    command = [sys.executable, "-m", "tests.compiler.cpu_gpu_backends.flush", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300,
                          env={**os.environ, "LOCKSTEP_CACHE": str(cache)})


@pytest.mark.parametrize("side", ["end", pytest.param("start", marks=pytest.mark.slow)])
def test_buffers_flush_against_pages_without_access(side, tmp_path):
    done = flush(side, cache=tmp_path)
    assert done.returncode == 0, f"{done.stdout[-100:]}{done.stderr[-1000:]}"
    cases = done.stdout.splitlines()
    assert cases[-1] == "all" and len(cases) > 80


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("side", "change"), [
    ("end", "no masks"), pytest.param("start", "no masks", marks=pytest.mark.slow),
    ("start", "one scratch element less")])
def test_a_planted_mistake_is_found(side, change, tmp_path):
    assert flush(side, change, cache=tmp_path).returncode == -signal.SIGSEGV
