"""Pools of one's own: what workers do, and what happens when they, or whoever searches, die."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.errors import ArgumentError
from compiler.processes import _is_running
from runtime.tuning import pool as pools
from runtime.tuning.pool import PoolError, WorkerPool, device_of
from runtime.tuning.trials import Trial
from tests.support.extras import needs
from tests.support.ports import family, hears, listening, reached
from tests.support.sleeping_target import COUNTING, KIND, TASK

pytestmark = needs("distributed", "the extra pool")

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    """One worker builds, one measures; a trial may lose one worker."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pools, "MOST_DEATHS", 1)
        with WorkerPool(devices=(KIND, COUNTING), measurers=1, builders=1, limit_seconds=2,
                        imports=["tests.support.sleepers"]) as pool:
            yield pool


def trial(plan: str, seed: int = 0, target: str = KIND) -> Trial:
    return Trial(target, TASK, plan, seed)


def wait_for(ended) -> None:
    until = time.monotonic() + 90
    while not ended() and time.monotonic() < until:
        time.sleep(0.05)
    assert ended()


@pytest.mark.slow
def test_every_trial_has_a_result_once(pool) -> None:
    plans = {"refused x": "plan must be legal, not 'x'", "crash": "its process crashed by signal 6",
             "hang": "took longer than 2 s", **{f"sleep {n * 1e-4}": "" for n in range(20)}}
    trials = [trial(plan) for plan in plans]
    results = list(pool.results(trials + trials))
    assert {trial.plan: result.error for trial, result in results} == plans
    assert len(results) == len(plans)


def test_results_come_while_trials_are_thought_of(pool) -> None:
    came: list[int] = []

    def thought() -> Iterator[Trial]:
        for seed in range(15):
            assert seed <= len(came) + pools.IN_LINE * 2
            yield trial("sleep 0", seed)

    for found, _ in pool.results(thought()):
        came.append(found.seed)
    assert sorted(came) == list(range(15))


def test_devices_are_told(pool) -> None:
    assert pool.devices == [COUNTING, KIND]
    assert sorted(map(len, pool.workers.values())) == [0, 2]
    ((_, result),) = pool.results([trial("12345", target=COUNTING)])
    assert (result.value, result.unit) == (5.0, "cycles")


def test_every_process_of_it_hears_this_computer_alone(pool) -> None:
    ((_, result),) = pool.results([trial("sleep 0", 3000)])
    assert result.error == ""
    processes = family(os.getpid())
    assert any("runtime.tuning.serving" in process.cmdline() for process in processes)
    ports = listening(processes)
    assert len(ports) == 5                              # a scheduler; two workers, two nannies
    assert {address for address, _ in ports} == {"127.0.0.1"}
    assert reached(port for _, port in ports) == []
    assert {hears(address) for address in ports} == {"greeting"}


def test_builds_and_measurements_are_apart_each_on_a_core(pool, tmp_path) -> None:
    log = tmp_path / "log"
    ((_, result),) = pool.results([trial(f"log {log}")])
    assert result.error == ""
    lines = [line.split(" ", 2) for line in log.read_text().splitlines()]
    built = [process for what, process, _ in lines if what == "built"]
    measured = {process for what, process, _ in lines if what == "measured"}
    assert measured == {built[1]} and built[0] not in measured
    assert {cores for *_, cores in lines} <= {f"[{core}]" for core in os.sched_getaffinity(0)}


@pytest.mark.slow
def test_a_trial_of_a_worker_that_dies_is_run_again(pool, tmp_path) -> None:
    log = tmp_path / "log"
    killed = pool.processes

    def kill() -> None:
        wait_for(log.exists)
        for address, devices in pool.workers.items():
            if devices:
                os.kill(killed[address], signal.SIGKILL)
                return

    thread = threading.Thread(target=kill)
    thread.start()
    trials = [trial(f"log {log}"), *(trial("sleep 0.02", seed) for seed in range(60))]
    results = list(pool.results(trials))
    thread.join()
    assert sorted(found.id for found, _ in results) == sorted(one.id for one in trials)
    assert {result.error for _, result in results} == {""}
    wait_for(lambda: len(pool.workers) == 2)                # it has been started again


@pytest.mark.slow
def test_a_trial_that_kills_workers_is_given_up(pool) -> None:
    results = dict(pool.results([trial("kill"), trial("sleep 0", 1)]))
    assert results[trial("kill")].error == "lost its worker 2 times"
    assert results[trial("sleep 0", 1)].error == ""         # it stood in line behind the other
    wait_for(lambda: len(pool.workers) == 2)


def test_a_device_that_no_worker_has_is_refused(pool, monkeypatch) -> None:
    with pytest.raises(PoolError) as refusal:
        pool.require_device("cuda", 0.0)
    assert str(refusal.value) == (f"Pool must have a worker with the device cuda; it has "
                                  f"{COUNTING}, {KIND}")


def test_trials_that_nobody_waits_for_are_given_up(pool) -> None:
    results = pool.results(trial("sleep 0", seed) for seed in range(1000))
    next(results)
    results.close()
    ((found, _),) = pool.results([trial("sleep 0", 2000)])
    assert found.seed == 2000


@pytest.mark.parametrize(("target", "device"), [
    ("cpu:4", "cpu"), ("cpu", "cpu"), ("cuda:1", "cuda"), ("accel:tiny-1x4x4", "accel:tiny-1x4x4"),
    ("board:/dev/ttyUSB0", "board:/dev/ttyUSB0")])
def test_the_device_of_a_target(target: str, device: str) -> None:
    assert device_of(target) == device


@pytest.mark.parametrize(("address", "message"), [
    ("localhost:1", "Address must be tcp://HOST:PORT or tls://HOST:PORT, not 'localhost:1'"),
    ("tcp://[::1:1", "Address must be tcp://HOST:PORT or tls://HOST:PORT, not 'tcp://[::1:1'"),
    ("tcp://192.0.2.1:1", "Address must be tls://HOST:PORT, with certificates, or "
                          "tcp://127.0.0.1:PORT, not 'tcp://192.0.2.1:1'"),
    ("tls://localhost:1", "Certificates must come with an address tls://HOST:PORT, and only with "
                          "one")])
def test_addresses_that_cannot_be_are_refused(address: str, message: str) -> None:
    with pytest.raises(ArgumentError) as refusal:
        WorkerPool(address)
    assert str(refusal.value) == message


def test_without_the_extra_it_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(PoolError) as refusal:
        WorkerPool()
    assert str(refusal.value) == "A pool needs the extra pool: pip install 'lockstep-hw[pool]'"


SEARCH = """
from runtime.tuning.pool import WorkerPool
from runtime.tuning.trials import Trial
from tests.support.ports import family, hears, listening, reached
from tests.support.sleeping_target import KIND, TASK

if __name__ == "__main__":
    with WorkerPool(devices=(KIND,), measurers=1, builders=0, limit_seconds=100,
                    imports=["tests.support.sleepers"]) as pool:
        results = pool.results(Trial(KIND, TASK, plan) for plan in ("sleep 0", "hang"))
        next(results)
        print(*pool.processes.values(), flush=True)
        next(results)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGKILL,
                                                                marks=pytest.mark.slow)])
def test_a_search_that_is_ended_leaves_nothing(tmp_path, number: int) -> None:
    script = tmp_path / "search.py"
    script.write_text(SEARCH)
    with subprocess.Popen([sys.executable, script], cwd=ROOT, text=True, start_new_session=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=os.environ | {"PYTHONPATH": str(ROOT), "MARK": str(tmp_path)}
                          ) as search:
        assert search.stdout is not None and search.stderr is not None
        process = int(search.stdout.readline())
        assert _is_running(process)
        if number == signal.SIGINT:                         # as a terminal does
            os.killpg(search.pid, number)
        else:
            search.kill()
        said = search.stderr.read()
    if number == signal.SIGINT:
        assert said.splitlines()[-1] == "KeyboardInterrupt" and said.count("Traceback") == 1
    wait_for(lambda: not left(str(tmp_path)))


def left(mark: str) -> list[str]:
    """The command lines of processes that a search has left."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and f"MARK={mark}".encode() in (
                    folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            pass                                            # it has ended
    return found
