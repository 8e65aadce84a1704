"""The cache of compiled networks: found again, made again, and never what it should not be."""

import json
import logging
import math
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from accel.machine.dram import Dram
from accel.machine.machine import Machine
from compiler.cpu_gpu_backends.llvm import WITHOUT, host
from compiler.frontend import load
from compiler.graph import Graph
from compiler.graph.division.placement import Pins
from compiler.native import note
from runtime import Module, SimulatedDevice, compile_for, simulator
from runtime.driver import cache, compilation
from runtime.pricing import timing
from runtime.driver.cache import Division, network_key, sources
from runtime.pricing.link import LINK, Link
from runtime.driver.targets import accelerator
from tests.support.integer_graphs import Net
from tests.support.machines import SHORT, TINY

SHARED = {name: text for name, text in os.environ.items() if name == "LOCKSTEP_CACHE"}
DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits-int8.onnx"
SETTINGS = {"integerize": True, "threads": 2}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_began", cache.time.time())
    return tmp_path / "cache" / "networks"


def device(machine: Machine = TINY) -> SimulatedDevice:
    return SimulatedDevice(machine, simulator("functional"))


def network() -> Graph:
    net = Net(1)
    x = net.add_node("quantize", net.input(1, 3, 4, 4, dtype="float32"), scale=0.1, zp=3)
    return net.graph(net.conv(x, 3, (3, 3)))


def result(module: Module) -> np.ndarray:
    name, = module.graph.inputs
    shape = module.graph.values[name].shape
    module.set_input(name, np.linspace(-9, 9, math.prod(shape), dtype=np.float32).reshape(shape))
    module.run()
    return module.get_output(module.graph.outputs[0])


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/module.lockstep"))


@pytest.fixture
def no_compiler(monkeypatch) -> None:
    monkeypatch.setattr("runtime.driver.compilation.build",
                        lambda *_: pytest.fail("it compiles"))


def test_the_second_time_nothing_is_compiled(own_cache: Path, request) -> None:
    first = result(compile_for(network(), device()))
    assert len(entries(own_cache)) == 1
    request.getfixturevalue("no_compiler")
    np.testing.assert_array_equal(result(compile_for(network(), device())), first)


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"", lambda data:
                                    data.replace(b"qconv", b"qcomv")])
def test_what_is_damaged_is_made_again(own_cache: Path, caplog, request, damage) -> None:
    first = result(compile_for(network(), device()))
    entry, = entries(own_cache)
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    with caplog.at_level(logging.WARNING):
        np.testing.assert_array_equal(result(compile_for(network(), device())), first)
    assert len(caplog.records) == 1 and str(entry.parent) in caplog.text
    assert entry.read_bytes() == whole
    request.getfixturevalue("no_compiler")
    compile_for(network(), device())


def test_without_the_cache(own_cache: Path) -> None:
    compile_for(network(), None, cache=False)
    compile_for(network(), None, after=lambda *_: None)
    assert not own_cache.exists()


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path / "file"))
    assert result(compile_for(network(), None)).any()


def test_a_source_that_changes_under_a_running_process(own_cache: Path, monkeypatch) -> None:
    monkeypatch.setattr(cache, "_began", 0.0)
    compile_for(network(), None)
    assert not own_cache.exists()


def test_what_was_used_longest_ago_goes_first(own_cache: Path, monkeypatch) -> None:
    def kept(**options) -> Path:
        before = set(entries(own_cache))
        compile_for(network(), None, **options)
        (made,) = set(entries(own_cache)) - before
        return made

    one, two = kept(threads=1), kept(threads=2)
    for age, entry in enumerate((two, one)):
        os.utime(entry.parent, (1000 - age, 1000 - age))
    compile_for(network(), None, threads=1)            # used
    monkeypatch.setattr(cache, "LARGEST", int(2.5 * one.stat().st_size))
    three = kept(integerize=False)
    assert entries(own_cache) == sorted((one, three))


# Divided by pins and by times


def test_a_pinned_network_is_kept(own_cache: Path, request) -> None:
    first = compile_for(network(), device(), pins={"qconv2d": "host"})
    assert not first.accelerated and len(entries(own_cache)) == 1
    request.getfixturevalue("no_compiler")
    again = compile_for(network(), device(), pins={"qconv2d": "host"})
    assert again.partition.reasons == first.partition.reasons
    np.testing.assert_array_equal(result(again), result(first))


@pytest.fixture
def measured(monkeypatch) -> list[str]:
    """What was measured; nothing is known from before."""
    asked: list[str] = []
    time = timing.timed
    monkeypatch.setattr(timing, "_known", {})
    monkeypatch.setattr(timing, "timed", lambda run: (asked.append(""), time(run))[1])
    return asked


def test_what_auto_decided_is_kept(own_cache: Path, measured, request) -> None:
    first = compile_for(network(), device(), link=LINK)
    assert first.auto and measured
    measured.clear()
    request.getfixturevalue("no_compiler")
    again = compile_for(network(), device(), link=LINK)
    assert not measured and again.auto == first.auto
    assert [one.nodes for one in again.partition.segments] == [
        one.nodes for one in first.partition.segments]
    np.testing.assert_array_equal(result(again), result(first))


ANOTHER = '{"seconds": 12.5, "wall_seconds": 13.0, "samples": 5}'


@pytest.mark.parametrize("change", [
    shutil.rmtree, lambda entry: note("times", entry.name, ANOTHER),
    lambda entry: (entry / "text").write_text(ANOTHER)],
    ids=["removed", "another", "damaged"])
def test_other_times_are_another_division(own_cache: Path, measured, monkeypatch, request,
                                          change) -> None:
    compile_for(network(), device(), link=LINK)
    for entry in (own_cache.parent / "times").iterdir():
        change(entry)
    monkeypatch.setattr(timing, "_known", {})
    measured.clear()
    compile_for(network(), device(), link=LINK)
    entry, = entries(own_cache)
    times = set(json.loads((entry.parent / "times.json").read_text()).values())
    is_known = request.node.name.endswith("[another]")
    assert times == {12.5} if is_known else measured and 12.5 not in times


# What the key covers


def renamed(graph: Graph) -> Graph:
    return replace(graph, name="other")


def with_a_bit_changed(graph: Graph) -> Graph:
    name = next(name for name, array in graph.constants.items() if array.size > 1)
    array = graph.constants[name].copy()
    array.reshape(-1)[-1] += 1
    return replace(graph, constants={**graph.constants, name: array})


def division(link: Link | None = None, pins: Pins | None = None, machine: Machine = TINY
             ) -> Division:
    targets = compilation.Targets([accelerator(machine)])
    return compilation._division(targets, link is not None, pins, link)


def keys() -> dict[str, str]:
    graph, here = load(DIGITS), device()
    faster = Machine(replace(TINY.config, clock_mhz=200))
    nearer = Machine(replace(TINY.config, memory=Dram(latency=1)))
    return {
        "as it is": network_key(graph, here, SETTINGS),
        "name": network_key(renamed(graph), here, SETTINGS),
        "constant": network_key(with_a_bit_changed(graph), here, SETTINGS),
        "machine": network_key(graph, device(SHORT), SETTINGS),
        "clock": network_key(graph, device(faster), SETTINGS),
        "host": network_key(graph, None, SETTINGS),
        "threads": network_key(graph, here, {**SETTINGS, "threads": 1}),
        "pins": network_key(graph, here, SETTINGS, division(pins={"conv3": "host"})),
        "auto": network_key(graph, here, SETTINGS, division(LINK)),
        "link": network_key(graph, here, SETTINGS, division(Link(start_seconds=0))),
        "memory": network_key(graph, device(nearer), SETTINGS, division(LINK, machine=nearer))}


def test_keys_differ() -> None:
    assert len(set(keys().values())) == len(keys())
    assert keys() == keys()


def test_programs_do_not_depend_on_the_memory() -> None:
    nearer, graph = Machine(replace(TINY.config, memory=Dram(latency=1))), load(DIGITS)
    assert network_key(graph, device(nearer), SETTINGS) == keys()["as it is"]


def test_a_file_and_its_graph_are_one_network(own_cache: Path, request) -> None:
    first = result(compile_for(DIGITS, None))
    request.getfixturevalue("no_compiler")
    np.testing.assert_array_equal(result(compile_for(load(DIGITS), None)), first)


@pytest.mark.parametrize("what", ["source", "processor", "library"])
def test_all_keys_change_with(monkeypatch, tmp_path, what: str) -> None:
    before = set(keys().values())
    if what == "source":
        (tmp_path / "accel").mkdir()
        (tmp_path / "accel" / "new.py").write_text("")
        monkeypatch.setattr(cache, "HOUSE", tmp_path)
    elif what == "processor":
        monkeypatch.setenv(WITHOUT, host().features[-1])
    else:
        monkeypatch.setattr(cache, "version", lambda name: "0")
    assert before.isdisjoint(keys().values())


def test_keys_change_with_what_a_source_says(monkeypatch, tmp_path) -> None:
    """Not only with the names of files; and with those in folders below."""
    source = tmp_path / "accel" / "below" / "new.py"
    source.parent.mkdir(parents=True)
    monkeypatch.setattr(cache, "HOUSE", tmp_path)
    seen = set()
    for text in ("one = 1", "two = 2", "three"):
        source.write_text(text)
        os.utime(source, ns=(len(seen), len(seen)))
        seen |= set(keys().values())
    assert len(seen) == 3 * len(keys())


@pytest.mark.slow
def test_all_that_takes_part_is_a_source() -> None:
    """With the cache of all tests, in which is what C++ compilers made for the accelerator."""
    env = {name: text for name, text in os.environ.items() if name != "LOCKSTEP_CACHE"} | SHARED
    code = f"""
import sys
from accel.machine.config import preset
from accel.machine.machine import Machine
from runtime import SimulatedDevice, compile_for
compile_for({str(DIGITS)!r}, SimulatedDevice(Machine(preset("tiny-1x4x4")), None), cache=False)
print(*(m.__file__ for m in sys.modules.values() if getattr(m, "__file__", None)), sep="\\n")
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          cwd=DIGITS.parents[2], env=env)
    loaded = {Path(line) for line in said.stdout.splitlines()}
    ours = {path for path in loaded if path.is_relative_to(cache.HOUSE)
            and path.relative_to(cache.HOUSE).parts[0] in ("compiler", "accel", "runtime")}
    assert len(ours) > 50 and ours <= set(sources())
