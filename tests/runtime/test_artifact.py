"""Saved modules: what is loaded does what was compiled; what was not written is refused."""

import hashlib
import io
import json
import math
import tracemalloc
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lockstep
from accel.machine.config import AccelConfig
from accel.machine.intrinsics import SHIPPED, vector_op
from accel.machine.machine import Machine
from accel.machine.timing import CoreTiming
from accel.mapping.target import AccelTarget
from bench.cpu.calls import chain
from compiler import te
from compiler.cpu_gpu_backends.cpu.target import CpuTarget
from compiler.cpu_gpu_backends.llvm import WITHOUT, Kernel, host
from compiler.graph import Graph, evaluate
from runtime import (ArtifactError, Module, SimulatedDevice, compile_graph, load, report,
                     simulator)
from runtime.artifact import read
from runtime.exporting.scales import scales_of
from tests.support.float_graphs import inputs_of, random_graph
from tests.support.integer_graphs import Net
from tests.support.machines import TINY
from tests.support.structures import renamed, two_vectors

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits-int8.onnx"
PIXELS = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)


def module_of(graph: Graph, machine: Machine | None = TINY) -> Module:
    if machine is None:
        return compile_graph(graph, None)
    return compile_graph(graph, AccelTarget(machine), SimulatedDevice(machine,
                                                                     simulator("functional")))


def alternating(net: Net) -> Graph:
    """Float arithmetic of the host between two layers of the accelerator; a constant goes out."""
    x = net.input(2, 3, 6, 6, dtype="float32")
    for _ in range(2):
        x = net.conv(net.add_node("quantize", x, scale=1.0, zp=3), 3, (3, 3), pads=(1, 1, 1, 1))
        x = net.add_node("relu", net.add_node("dequantize", x, scale=0.5, zp=-4))
    return net.graph(x, net.constant(np.arange(3, dtype=np.int32)))


@pytest.fixture(scope="module")
def taken(tmp_path_factory) -> Path:
    """A file to take apart: three segments of the host and two of the accelerator."""
    path = tmp_path_factory.mktemp("artifact") / "net.lockstep"
    module_of(alternating(Net(1))).save(path)
    return path


def results(module: Module, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    for name, array in inputs.items():
        module.set_input(name, array)
    module.run()
    return {name: module.get_output(name) for name in module.graph.outputs}


def assert_right(module: Module, inputs: dict[str, np.ndarray]) -> None:
    for name, array in results(module, inputs).items():
        np.testing.assert_array_equal(array, evaluate(module.graph, inputs)[name])


# What was saved and what was not


def test_digits_to_the_bit_and_to_the_cycle(tmp_path) -> None:
    def figures(module: Module) -> dict[str, Any]:
        module.set_input("image", PIXELS)
        return report(module, module.run(), module.machine, 1.0)

    compiled = lockstep.compile(DIGITS, "accel:tiny-1x4x4", sim="cycle", timeline=True)
    compiled.save(tmp_path / "digits")
    loaded = load(tmp_path / "digits", sim="cycle", timeline=True)
    made = figures(loaded)
    assert made == figures(compiled) and made["cycles"] > 0 and made["layers"][0]["stalls"]
    assert [one.program for one in loaded.accelerated][0].labels == \
        [one.program for one in compiled.accelerated][0].labels
    assert str(loaded.graph) == str(compiled.graph)
    assert str(loaded.partition) == str(compiled.partition)
    assert loaded.settings == {"integerize": True, "threads": 2}


def test_host_and_accelerator_take_turns(taken: Path) -> None:
    assert_right(load(taken), Net(1).samples() | {"x": PIXELS.repeat(4)[:216].reshape(2, 3, 6, 6)})


def test_the_host_alone(tmp_path) -> None:
    net = Net(5)
    module_of(alternating(net), None).save(tmp_path / "net")
    module = load(tmp_path / "net")
    assert module.machine is None
    assert_right(module, net.samples())


@pytest.mark.parametrize("seed", range(3))
def test_groups_workspaces_and_views_of_the_host(tmp_path, seed: int) -> None:
    graph = random_graph(seed)
    module, inputs = module_of(graph, None), inputs_of(graph)
    module.save(tmp_path / "net")
    loaded, wanted = load(tmp_path / "net"), results(module, inputs)
    for name, array in results(loaded, inputs).items():
        np.testing.assert_array_equal(array, wanted[name])


def test_code_of_a_kernel_that_many_steps_share_is_taken_once(monkeypatch, tmp_path) -> None:
    graph = chain("product", 5)
    module, taken = module_of(graph, None), []
    code = Kernel.code
    monkeypatch.setattr(Kernel, "code", property(lambda self: taken.append(self)
                                                 or code.__get__(self)))
    module.save(tmp_path / "net.lockstep")
    assert len(taken) == len(set(taken)) == 1
    again, inputs = load(tmp_path / "net.lockstep"), inputs_of(graph)
    for name, array in results(module, inputs).items():
        np.testing.assert_array_equal(array, results(again, inputs)[name])


def test_attributes_of_every_kind(tmp_path) -> None:
    net = Net(6)
    x = net.input(1, 4, dtype="float32")
    graph = net.graph(net.add_node("clip", x, lo=-math.inf, hi=6.0))
    module_of(graph, None).save(tmp_path / "net")
    assert load(tmp_path / "net").graph.nodes == graph.nodes


def test_loading_compiles_nothing(taken: Path, monkeypatch) -> None:
    for place in (AccelTarget, CpuTarget):
        monkeypatch.setattr(place, "compile", lambda *_: pytest.fail("it compiles"))
    monkeypatch.setattr("accel.mapping.target.prove", lambda *_: pytest.fail("it proves"))
    assert_right(load(taken), net_inputs())


def net_inputs() -> dict[str, np.ndarray]:
    net = Net(1)
    alternating(net)
    return net.samples()


def test_the_same_module_gives_the_same_bytes(taken: Path, tmp_path) -> None:
    load(taken).save(tmp_path / "again")
    module_of(alternating(Net(1))).save(tmp_path / "anew")
    assert taken.read_bytes() == (tmp_path / "again").read_bytes() == (
        tmp_path / "anew").read_bytes()


def test_on_another_processor_the_host_is_compiled_anew(taken: Path, tmp_path,
                                                        monkeypatch) -> None:
    feature = host().features[-1]
    monkeypatch.setenv(WITHOUT, feature)
    monkeypatch.setattr(Kernel, "restored", lambda *_: pytest.fail("it is of another processor"))
    module = load(taken)
    assert_right(module, net_inputs())
    module.save(tmp_path / "here")
    with zipfile.ZipFile(tmp_path / "here") as archive:
        assert f"-{feature}" in json.loads(archive.read("manifest.json"))["processor"]["features"]


def test_a_machine_of_ones_own(tmp_path) -> None:
    absdiff = vector_op("absdiff", lambda a, b: te.maximum(a - b, b - a))
    mine = Machine(TINY.config, (*SHIPPED, absdiff))
    net = Net(2)
    graph = net.graph(net.rescale(net.input(1, 4, 3, 3)))
    module_of(graph, mine).save(tmp_path / "net")
    assert_right(load(tmp_path / "net", machine=mine), net.samples())
    refused(tmp_path / "net", "was compiled for machine", "give its machine")
    with pytest.raises(ArtifactError, match="not for .*: instruction absdiff is one more; compile "
                                            "the network again$"):
        load(tmp_path / "net", machine=TINY)


@pytest.mark.parametrize("config", [
    replace(TINY.config, timing=CoreTiming(beats=64)), renamed(TINY.config)],
    ids=["timing", "structure"])
def test_a_machine_of_ones_own_times_or_names(config: AccelConfig, tmp_path) -> None:
    net = Net(2)
    graph = net.graph(net.rescale(net.input(1, 4, 3, 3)))
    module_of(graph, Machine(config)).save(tmp_path / "net")
    assert_right(load(tmp_path / "net"), net.samples())


def test_a_machine_with_a_further_unit_must_be_given(tmp_path) -> None:
    mine, net = two_vectors(TINY.config), Net(2)
    graph = net.graph(net.rescale(net.input(1, 4, 3, 3)))
    module_of(graph, mine).save(tmp_path / "net")
    assert_right(load(tmp_path / "net", machine=mine), net.samples())
    refused(tmp_path / "net", "was compiled for machine", "give its machine", "--machine M")


def test_a_file_that_cannot_be_written_leaves_nothing(taken: Path, tmp_path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        load(taken).save(tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


# What is refused


def refused(path: Path, *parts: str) -> None:
    with pytest.raises(ArtifactError) as refusal:
        load(path)
    message = str(refusal.value)
    assert message.startswith(f"{path}: ") and "\n" not in message
    assert all(part in message for part in parts), message


def content(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def edited(path: Path, change: Callable[[dict[str, Any]], object]) -> bytes:
    """The manifest changed, and sealed again."""
    members = content(path)
    manifest = json.loads(members["manifest.json"])
    change(manifest)
    return packed(sealed(members | {"manifest.json": json.dumps(manifest).encode()}))


def sealed(members: dict[str, bytes]) -> dict[str, bytes]:
    manifest = hashlib.sha256(members["manifest.json"]).hexdigest()
    return members | {"manifest.sha256": f"{manifest}  manifest.json\n".encode()}


@pytest.mark.parametrize(("make", "message"), [
    (lambda path: b"", "is not a compiled module, or not all of one"),
    (lambda path: DIGITS.read_bytes(), "is not a compiled module, or not all of one"),
    (lambda path: path.read_bytes()[:-100], "is not a compiled module, or not all of one"),
    (lambda path: packed({"x.npy": b""}), "is a zip archive, but not a compiled module"),
    (lambda path: packed(content(path), zipfile.ZIP_DEFLATED), "members that Lockstep does not"),
    (lambda path: edited(path, lambda m: m.update(format="frame")), "but a 'frame'"),
    (lambda path: edited(path, lambda m: m.update(version=1)),
     "has version 1 of the format, and this Lockstep reads 4; compile the network again"),
    (lambda path: edited(path, lambda m: m["graph"].update(notes=[2])),
     "contradicts itself (ValueError: graph.notes[0] must be text, not 2)"),
    (lambda path: edited(path, lambda m: m.pop("graph")),
     "contradicts itself (ValueError: graph is missing)"),
    (lambda path: edited(path, lambda m: m["partition"]["reasons"].update(conv1=[1, 2])),
     "contradicts itself (ValueError: partition.reasons.conv1 must be text, not [1, 2])"),
    (lambda path: edited(path, lambda m: m["machine"]["config"].update(block_in=8)),
     "(tiny-1x4x4): block_in is 4, not 8; compile the network again, or give its machine"),
    (lambda path: edited(path, lambda m: m.update(scales={"y": {"scale": 1, "zero_point": 0}})),
     "contradicts itself (ValueError: scales must be those of inputs and outputs)"),
    (lambda path: packed(content(path) | {"more": b""}), "more is no member of it"),
    (lambda path: packed(content(path) | {"manifest.sha256": b""}), "its manifest is not the one"),
    (lambda path: packed(content(path) | {"constants/0": b""}), "constants/0 is not what was"),
    (lambda path: packed({k: v for k, v in content(path).items() if k != "constants/0"}),
     "lacks its member constants/0"),
])
def test_what_was_not_written_is_refused(taken: Path, tmp_path, make, message: str) -> None:
    path = tmp_path / "net.lockstep"
    path.write_bytes(make(taken))
    refused(path, message)


def test_a_file_of_before_scales_were_kept_has_those_of_its_graph(taken: Path, tmp_path) -> None:
    (tmp_path / "net").write_bytes(edited(taken, lambda m: m.pop("scales")))
    module = load(tmp_path / "net")
    assert module.scales == scales_of(module.graph)


def with_object(path: Path, change: Callable[[bytes], bytes]) -> bytes:
    """The machine code of a kernel changed, and all hashes right."""
    members = content(path)
    members["kernels/0.o"] = change(members["kernels/0.o"])
    manifest = json.loads(members["manifest.json"])
    manifest["members"]["kernels/0.o"] = {
        "bytes": len(members["kernels/0.o"]),
        "sha256": hashlib.sha256(members["kernels/0.o"]).hexdigest()}
    return packed(sealed(members | {"manifest.json": json.dumps(manifest).encode()}))


@pytest.mark.parametrize(("change", "reason"), [
    (lambda code: b"", "has 0 bytes, fewer than a header"),
    (lambda code: code[:40], "has 40 bytes, fewer than a header"),
    (lambda code: code[:len(code) // 2], "is cut off before its table of sections ends"),
    (lambda code: code[:-1], "is cut off before its table of sections ends"),
    (lambda code: b"x" * len(code), "is no relocatable ELF file of 64 bits"),
    (lambda code: code.replace(b"kernel", b"kernem"), ""),
])
def test_machine_code_that_is_cut_off_is_refused(taken: Path, tmp_path, change,
                                                 reason: str) -> None:
    path = tmp_path / "net.lockstep"
    path.write_bytes(with_object(taken, change))
    refused(path, f"was altered: kernels/0.o cannot be linked: {reason}")


def test_an_archive_packed_by_another_program(taken: Path, tmp_path) -> None:
    (tmp_path / "net").write_bytes(packed(content(taken)))
    assert_right(load(tmp_path / "net"), net_inputs())


def test_no_file_and_a_folder(tmp_path) -> None:
    refused(tmp_path / "none", "cannot be read: No such file")
    refused(tmp_path, "cannot be read: Is a directory")


def test_what_swells_is_not_read(taken: Path, tmp_path) -> None:
    path = tmp_path / "bomb.lockstep"
    small = packed({"manifest.json": bytes(1 << 26), "manifest.sha256": b""},
                   zipfile.ZIP_DEFLATED)
    huge = bytearray(taken.read_bytes())
    at = huge.rindex(b"PK\x01\x02")                         # the last entry of the directory
    huge[at + 20:at + 28] = (0xFFFFFFF0).to_bytes(4, "little") * 2
    for data in (small, bytes(huge)):
        path.write_bytes(data)
        tracemalloc.start()
        refused(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
        tracemalloc.stop()


# Mutants


def flip(rng: np.random.Generator, path: Path) -> bytes:
    data = np.frombuffer(path.read_bytes(), np.uint8).copy()
    data[rng.integers(data.size, size=rng.integers(1, 9))] ^= np.uint8(1 << rng.integers(8))
    return data.tobytes()


def truncate(rng: np.random.Generator, path: Path) -> bytes:
    data = path.read_bytes()
    return data[:rng.integers(len(data))]


def insert(rng: np.random.Generator, path: Path) -> bytes:
    data = path.read_bytes()
    at = rng.integers(len(data) + 1)
    return data[:at] + rng.bytes(int(rng.integers(1, 100))) + data[at:]


def drop(rng: np.random.Generator, path: Path) -> bytes:
    members = content(path)
    del members[rng.choice(sorted(members))]
    return packed(members)


def swap(rng: np.random.Generator, path: Path) -> bytes:
    members = content(path)
    one, other = rng.choice(sorted(members), 2, replace=False)
    members[one], members[other] = members[other], members[one]
    return packed(members)


def contradict(rng: np.random.Generator, path: Path) -> bytes:
    members = content(path)
    manifest = json.loads(members["manifest.json"])
    change(rng, manifest)
    return packed(members | {"manifest.json": json.dumps(manifest).encode()})


MUTATORS = (flip, flip, flip, truncate, insert, drop, swap, contradict)


def change(rng: np.random.Generator, manifest: dict[str, Any]) -> None:
    """Another value for something in it, or nothing."""
    place: Any = manifest
    parent: Any = manifest
    key: Any = "format"
    while isinstance(place, dict | list) and place:
        parent = place
        keys = sorted(place) if isinstance(place, dict) else range(len(place))
        key = keys[int(rng.integers(len(keys)))]
        place = parent[key]
        if rng.random() < 0.05:
            break
    values: list[Any] = [None, True, 0, -1, 1 << 31, 1 << 62, 1.5, "", "x", [], [0], {}, {"a": 1}]
    pick = int(rng.integers(len(values) + 1))
    if pick == len(values):
        del parent[key]
    else:
        parent[key] = values[pick]


def test_mutants_are_refused_or_right(taken: Path, tmp_path) -> None:
    path, inputs = tmp_path / "mutant", net_inputs()
    wanted = results(load(taken), inputs)
    for seed in range(104):
        path.write_bytes(MUTATORS[seed % len(MUTATORS)](np.random.default_rng(seed), taken))
        try:
            module = load(path)
        except ArtifactError as error:
            assert "\n" not in str(error) and len(str(error)) < 400
            continue
        for name, array in results(module, inputs).items():
            np.testing.assert_array_equal(array, wanted[name], f"seed {seed}")


def test_forged_manifests_are_refused_or_consistent(taken: Path, tmp_path) -> None:
    """If the hashes fit, nobody can tell what was written; but nothing else happens."""
    path, loaded = tmp_path / "forged", 0
    for seed in range(100):
        path.write_bytes(edited(taken, partial(change, np.random.default_rng(seed))))
        try:
            read(path)
            loaded += 1
        except ArtifactError as error:
            assert "\n" not in str(error)
    assert 0 < loaded < 50
