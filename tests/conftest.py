"""What every test may use: seeded random numbers, golden files, steady Hypothesis settings."""

import gc
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from tests.support.effort import Effort, tries
from tests.support.slow_cases import leave_slow

GOLDEN = Path(__file__).with_name("golden")
SEED = 20260


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true",
                     help="write the texts of tests/golden/ instead of comparing with them")


def pytest_configure(config: pytest.Config) -> None:
    os.environ["LOCKSTEP_STRICT"] = "1"         # a defect that the host would make good is red
    Effort.quick = "not slow" in str(config.getoption("markexpr"))
    # Derandomized: a red test is red again. No deadline: a busy machine is not a failure.
    settings.register_profile("lockstep", max_examples=tries(100), derandomize=True, deadline=None,
                              database=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("lockstep")
    # Hypothesis also tries the constants of all code that is loaded, which it takes eight seconds
    # to read; an edit elsewhere would change what a test tries.
    providers._get_local_constants = lambda: providers._local_constants
    gc.disable()                # until tests are collected, of which nothing is garbage
    # A shell's background job ignores SIGINT, and so would the commands that tests interrupt.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)             # before marks decide what is taken
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    leave_slow(items)


def pytest_collection_finish() -> None:
    """Tests and what they import stay to the end, so the collector leaves them alone. Programs are
    many small objects, so it comes less often than by default. That saves an eighth of the time of
    a compiler's tests.
    """
    gc.enable()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    _keep_children()
    if Effort.quick:
        _build_quickly()


def pytest_sessionfinish() -> None:
    """pytest collects garbage five times at its end, to warn of what was not closed. It is found
    here, at once; the five have nothing to look through then.
    """
    gc.collect()
    gc.freeze()


def _keep_children() -> None:
    """The child that compiles for LLVM is a fork of this process, which is large: one stays, where
    another would begin whenever tests compile nothing for two seconds.
    """
    from compiler.cpu_gpu_backends.llvm.objects import apart

    apart.IDLE_SECONDS = 600.0


def _build_quickly() -> None:
    """Simulators that are compiled for a machine run short programs here: to optimize them takes
    longer than it saves.
    """
    from accel.sim.slice import simulator
    from accel.sim.timed import cycle

    simulator._FLAGS = ("-O0", *simulator._FLAGS[1:])
    cycle._FLAGS = ("-O1", *cycle._FLAGS[1:])


def pytest_report_header() -> str:
    return f"seed of the rng fixture: {SEED}"


def compare_golden(path: Path, text: str, update: bool) -> None:
    """Compare `text` with the file at `path`, or write the file if `update` is set."""
    text = text.rstrip("\n") + "\n"
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if not path.exists():
        pytest.fail(f"{path.name} must exist: write it with pytest --update-golden", pytrace=False)
    assert text == path.read_text(), f"{path.name} differs; if rightly so, pytest --update-golden"


@pytest.fixture
def golden(request: pytest.FixtureRequest):
    """``golden("name.txt", text)`` compares a text with ``tests/golden/name.txt``."""
    update = bool(request.config.getoption("--update-golden"))
    return lambda name, text: compare_golden(GOLDEN / name, text, update)


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers that are the same in every run, whatever ran before."""
    return np.random.default_rng(SEED)
