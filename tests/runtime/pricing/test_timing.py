"""Times of the host, by a clock of the test's: the processor's time, and what is kept of it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from compiler.kept import note
from runtime.pricing import timing

RUN_SECONDS = 0.035


@dataclass
class Clock:
    """Time of the thread and on the wall, as `runtime.pricing.timing` asks for them. A call takes
    `seconds`, and on the wall `load` times as long; each is rounded to ticks.
    """

    seconds: float = RUN_SECONDS
    load: float = 1.0
    tick: float = 1e-9
    thread: float = 0.0
    wall: float = 0.0
    calls: int = 0

    def run(self) -> None:
        self.calls += 1
        self.thread += self.seconds
        self.wall += self.seconds * self.load

    def thread_time(self) -> float:
        return self.thread // self.tick * self.tick

    def perf_counter(self) -> float:
        return self.wall

    def get_clock_info(self, name: str) -> SimpleNamespace:
        assert name == "thread_time"
        return SimpleNamespace(resolution=self.tick)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def with_clock(monkeypatch, own_cache: Path) -> Callable[[Clock], Clock]:
    """Another process, whose clock is the given one."""
    def begin(clock: Clock) -> Clock:
        monkeypatch.setattr(timing, "_known", {})
        monkeypatch.setattr(timing, "time", clock)
        return clock
    return begin


def kept_entry(own_cache: Path) -> Path:
    path, = (own_cache / "times").iterdir()
    return path


def test_a_time_is_the_processors_and_not_the_walls(with_clock) -> None:
    clock = with_clock(Clock(load=829 / 35))
    assert timing.measured("network", clock.run) == pytest.approx(RUN_SECONDS)


def test_a_quiet_time_is_kept(with_clock, own_cache: Path) -> None:
    clock = with_clock(Clock(load=1.1))
    found = timing.measured("network", clock.run)
    again = with_clock(Clock(seconds=1.0))
    assert timing.measured("network", again.run) == timing.known("network") == found
    assert again.calls == 0
    assert json.loads((kept_entry(own_cache) / "text").read_text()) == {
        "seconds": pytest.approx(0.035), "wall_seconds": pytest.approx(0.0385), "samples": 5}


def test_a_time_under_load_is_tried_again_and_holds_for_the_process_alone(with_clock) -> None:
    clock = with_clock(Clock(seconds=0.003, load=4.0))
    found = timing.measured("network", clock.run)
    assert clock.calls > 40 and timing.known("network") == found
    quiet = with_clock(Clock(seconds=0.0029))
    assert timing.known("network") is None
    assert timing.measured("network", quiet.run) == pytest.approx(0.0029)
    with_clock(Clock())
    assert timing.known("network") == pytest.approx(0.0029)


def test_load_that_ends_meanwhile_leaves_no_trace(with_clock) -> None:
    clock = with_clock(Clock(load=4.0))

    def run() -> None:
        clock.load = 4.0 if clock.calls < 4 else 1.0
        clock.seconds = RUN_SECONDS * (1 + clock.load / 10)
        clock.run()

    found = timing.measured("network", run)
    with_clock(Clock())
    assert timing.known("network") == found == pytest.approx(1.1 * RUN_SECONDS)


@pytest.mark.parametrize("text", [
    '{"seconds": 0.829}', '{"seconds": 0.829, "wall_seconds": 2.5, "samples": 5}',
    '{"seconds": "x"', '[1]', '{"seconds": "1", "wall_seconds": 1.0, "samples": 5}',
    '{"seconds": -1.0, "wall_seconds": -1.0, "samples": 5}',
    '{"seconds": NaN, "wall_seconds": 1.0, "samples": 5}'])
def test_what_cannot_be_judged_is_measured_anew(with_clock, own_cache: Path, text: str) -> None:
    timing.measured("network", with_clock(Clock()).run)
    note("times", kept_entry(own_cache).name, text)
    with_clock(Clock())
    assert timing.known("network") is None


@pytest.mark.parametrize(("seconds", "tick"), [(1e-6, 1e-9), (1e-6, 1e-3), (20e-6, 15.6e-3)])
def test_what_is_short_is_repeated_until_the_clock_can_tell(with_clock, seconds, tick) -> None:
    clock = with_clock(Clock(seconds=seconds, tick=tick))
    assert timing.measured("operator", clock.run) == pytest.approx(seconds, rel=0.02)
