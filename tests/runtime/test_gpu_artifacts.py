"""Networks for GPUs as files: they do what was compiled, and compile only what they must."""

import hashlib
import json
import logging
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import lockstep
from compiler.cpu_gpu_backends.gpu import nvrtc
from compiler.cpu_gpu_backends.gpu.nvrtc import compile_cuda
from compiler.graph import Graph, evaluate
from runtime import ArtifactError, Module
from runtime.devices import cuda
from runtime.devices.device import DeviceMissing
from tests.support.fake_cuda import Cuda
from tests.support.float_graphs import FloatNet, inputs_of
from tests.support.integer_graphs import Net

ROOT = Path(__file__).parents[2]
INT8 = ROOT / "examples" / "digits" / "digits-int8.onnx"
IMAGE = {"image": np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)}


@pytest.fixture(scope="module")
def wanted() -> np.ndarray:
    return lockstep.compile(INT8, "cpu")(IMAGE)["logits"]


def text_of(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        return archive.read("gpu/0/kernels.cu").decode()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("target", ["opencl", "cuda:emulated", "accel:tiny-1x4x4,opencl,cpu"])
def test_a_file_computes_what_was_compiled(target: str, tmp_path, wanted) -> None:
    """The same bytes each time; mixed targets, too; what is read can be saved again."""
    for name in ("one", "other"):
        lockstep.compile(INT8, target, cache=False).save(tmp_path / name)
    loaded = lockstep.load(tmp_path / "one")
    assert [segment.target for segment in loaded.partition.segments][0] == target.split(",")[
        "," in target]
    np.testing.assert_array_equal(loaded(IMAGE)["logits"], wanted)
    loaded.save(tmp_path / "again")
    assert len({(tmp_path / name).read_bytes() for name in ("one", "other", "again")}) == 1


@pytest.mark.slow
def test_a_file_holds_factors_in_halves(tmp_path) -> None:
    network = INT8.with_name("digits-float.onnx")
    module = lockstep.compile(network, "cuda:emulated", precision="bf16")
    module.save(tmp_path / "one")
    np.testing.assert_array_equal(lockstep.load(tmp_path / "one")(IMAGE)["logits"],
                                  module(IMAGE)["logits"])


def test_the_cache_holds_it(wanted, monkeypatch) -> None:
    first = lockstep.compile(INT8, "opencl")
    monkeypatch.setattr("runtime.driver.compilation.build", None)      # it is not called again
    second = lockstep.compile(INT8, "opencl")
    np.testing.assert_array_equal(second(IMAGE)["logits"], wanted)
    assert [step.compiled.text for step in first.steps] == [
        step.compiled.text for step in second.steps]


def small() -> Graph:
    """A network with the input of digits and few kernels, which compilers take long for."""
    net = Net(1)
    x = net.add_node("quantize", net.input(1, 1, 8, 8, name="image", dtype="float32"), scale=0.01,
                     zp=3)
    y = net.conv(net.conv(x, 32, (3, 3)), 16, (1, 1))
    return net.graph(net.add_node("dequantize", y, scale=0.5, zp=3))


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    """Compiled for two architectures on a machine without a GPU."""
    path = tmp_path_factory.mktemp("saved") / "net"
    lockstep.compile(small(), "cuda", arch="sm_80,sm_90a").save(path)
    return path


def assert_computed(module: Module, image: Mapping[str, np.ndarray] = IMAGE) -> None:
    """What the small network gives."""
    (found,), (wanted,) = module(image).values(), evaluate(small(), image).values()
    assert wanted.std() > 1
    np.testing.assert_array_equal(found, wanted)


def loaded_on(monkeypatch, path: Path, gpu: Cuda) -> Module:
    monkeypatch.setattr(cuda, "_libraries", lambda: gpu.libraries)
    return lockstep.load(path)


@pytest.mark.slow
def test_machine_code_in_a_file_needs_no_compiler(saved: Path, monkeypatch) -> None:
    """NVRTC cannot be imported. `sm_90a` is for a GPU of 9.0 alone."""
    gpu = Cuda(9, 0)
    gpu.texts[compile_cuda(text_of(saved), "sm_90a").image] = text_of(saved)
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", None)
    nvrtc.compile_cuda.cache_clear()
    with pytest.raises(lockstep.BuildError, match="NVRTC must be installed"):
        compile_cuda("")
    module = loaded_on(monkeypatch, saved, gpu)
    for _ in range(2):
        assert_computed(module)
    assert list(gpu.texts) == gpu.images


@pytest.mark.slow
def test_a_file_holds_maps_of_arrays(tmp_path, monkeypatch) -> None:
    """Kernels of groups of warps are launched by the driver, with maps of what the TMA reads; the
    graph that is captured holds them too.
    """
    net = FloatNet(1, 96, 128)
    graph = net.finish([net.op("relu", net.op("matmul", "x", net.constant(128, 64)))])
    lockstep.compile(graph, "cuda", arch="sm_90a", precision="f16").save(tmp_path / "net")
    gpu = Cuda(9, 0)
    text = text_of(tmp_path / "net")
    assert "const __grid_constant__ TensorMap" in text
    gpu.texts[compile_cuda(text, "sm_90a").image] = text
    module = loaded_on(monkeypatch, tmp_path / "net", gpu)
    inputs = inputs_of(graph)
    found = lockstep.compile(graph, "cuda:emulated", arch="sm_90a", precision="f16")(inputs)
    for _ in range(2):
        for name, array in module(inputs).items():
            np.testing.assert_array_equal(array, found[name])
    module.profile(inputs)
    assert "launch mapped" in gpu.calls


@pytest.mark.one_in(2)
@pytest.mark.parametrize("capability, tensor_cores", [((7, 5), False), ((8, 0), True)])
def test_an_old_gpu_does_without_tensor_cores(monkeypatch, capability, tensor_cores: bool) -> None:
    monkeypatch.setattr(cuda, "_libraries", lambda: Cuda(*capability).libraries)
    module = lockstep.compile(INT8, "cuda", cache=False)
    text = "".join(text for step in module.steps for text in step.compiled.text)
    assert ("mma_m16n8k32_s8" in text) is tensor_cores


def test_another_architecture_is_compiled_and_said(saved: Path, monkeypatch, caplog) -> None:
    gpu = Cuda(8, 6)
    gpu.texts[compile_cuda(text_of(saved), "sm_86").image] = text_of(saved)
    with caplog.at_level(logging.WARNING):
        assert_computed(loaded_on(monkeypatch, saved, gpu))
    assert caplog.messages == ["The kernels are compiled for sm_86: there is machine code for "
                               "sm_80, sm_90a"]


def test_a_graph_is_captured_once_and_replayed(saved: Path, monkeypatch) -> None:
    """On the module's own stream, then on one that is given. A profile launches each kernel."""
    gpu = Cuda(8, 0)
    gpu.texts[compile_cuda(text_of(saved), "sm_80").image] = text_of(saved)
    module = loaded_on(monkeypatch, saved, gpu)
    assert_computed(module)
    gpu.calls.clear()
    other = {"image": 1 - IMAGE["image"]}
    module.use_stream(123)
    assert_computed(module, other)
    assert gpu.calls == ["sync", "copy in", "sync 123", "graph on 123", "sync 123", "copy out",
                         "sync 123"]
    module.profile(IMAGE)
    assert gpu.calls.count("launch") == text_of(saved).count("__global__")


def test_a_stream_needs_cuda() -> None:
    with pytest.raises(lockstep.ArgumentError, match="^use_stream must be called of a module with "
                                                     "a segment on cuda$"):
        lockstep.compile(INT8, "cuda:emulated").use_stream(1)


def test_what_is_compiled_for_elsewhere_says_what_is_missing_when_it_runs(saved: Path) -> None:
    with pytest.raises(DeviceMissing, match="^GPU 0 must be there"):
        lockstep.compile(small(), "cuda", arch=["sm_80"])(IMAGE)
    with pytest.raises(DeviceMissing, match="^GPU 0 must be there"):
        lockstep.load(saved)


@pytest.mark.parametrize(("target", "arch", "message"), [
    ("opencl", "sm_80", "arch must come with a target cuda, not opencl"),
    ("cuda", "ampere", "arch must be architectures such as sm_80, not 'ampere'"),
    ("cuda", 80, "arch must be a text such as 'sm_80,sm_90', or a list, not 80")])
def test_wrong_architectures(target: str, arch, message: str) -> None:
    with pytest.raises(lockstep.ArgumentError, match=f"^{message}$"):
        lockstep.compile(INT8, target, arch=arch)


def spoiled(source: Path, path: Path, change) -> Path:
    """The file with its manifest, or a member, changed; the seal fits the manifest."""
    with zipfile.ZipFile(source) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["manifest.json"])
    change(manifest, members)
    members["manifest.json"] = json.dumps(manifest).encode()
    members["manifest.sha256"] = hashlib.sha256(members["manifest.json"]).hexdigest().encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def gpu_of(manifest) -> dict:
    return manifest["parts"][0]["gpu"]


@pytest.mark.parametrize(("change", "message"), [
    (lambda manifest, members: members.update({"gpu/0/kernels.cl": b"__kernel"}),
     "was altered: gpu/0/kernels.cl is not what was written"),
    (lambda manifest, members: gpu_of(manifest)["steps"].pop(), "groups must hold every node once"),
    (lambda manifest, members: gpu_of(manifest)["steps"].reverse(),
     "a group must read what is there"),
    (lambda manifest, members: gpu_of(manifest)["codes"][0]["launches"][0].update(block=[0, 1, 1]),
     "must have blocks and threads along three axes"),
    (lambda manifest, members: gpu_of(manifest)["codes"][1]["inputs"][0].update(shape=[1]),
     "must have kernels for its types"),
    (lambda manifest, members: gpu_of(manifest)["steps"][0].update(code=None),
     "must have kernels unless it is a view"),
    (lambda manifest, members: gpu_of(manifest).update(dialect=3), "must be text, not 3"),
    (lambda manifest, members: gpu_of(manifest).update(dialect="sycl"),
     "must be one of cuda, opencl, metal, not 'sycl'"),
    (lambda manifest, members: manifest.update(version=2), "has version 2 of the format")])
def test_a_spoiled_file_wrong(tmp_path, change, message: str) -> None:
    lockstep.compile(INT8, "opencl").save(tmp_path / "net")
    with pytest.raises(ArtifactError, match=message):
        lockstep.load(spoiled(tmp_path / "net", tmp_path / "other", change))
