"""`lockstep compile`, and `lockstep run` of what it writes."""

import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from accel.mapping.texts import STAGES
from compiler.cpu_gpu_backends.c.lowering import PASSES
from lockstep.cli import main
from lockstep.options.arguments import QUANTIZER
from runtime.driver import compilation

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits-int8.onnx"
FLOAT = DIGITS.with_name("digits-float.onnx")
TINY = ["--target", "accel:tiny-1x4x4"]
VARYING = ("model", "wall_seconds", "provenance")


def call(*args) -> int:
    return main([str(arg) for arg in args])


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> Path:
    """Its name says nothing."""
    path = tmp_path_factory.mktemp("compiled") / "digits.onnx"
    assert call("compile", DIGITS, *TINY, "-o", path) == 0
    return path


def figures(tmp_path, *args) -> dict:
    report = tmp_path / "r.json"
    assert call("run", *args, "--json", report) == 0
    made = json.loads(report.read_text())
    return {name: value for name, value in made.items() if name not in VARYING}


@pytest.mark.parametrize("sim", ["functional", "cycle", "verilator"])
def test_it_runs_like_the_network(tmp_path, compiled, sim: str, capsys) -> None:
    assert figures(tmp_path, compiled, "--sim", sim) == figures(
        tmp_path, DIGITS, *TINY, "--sim", sim)
    out = capsys.readouterr().out
    assert f"{compiled}onaccel:tiny-1x4x4" in "".join(out.split())       # a title may be broken


def test_traces_and_outputs(tmp_path, compiled) -> None:
    for model, options, name in ((compiled, [], "one"), (DIGITS, TINY, "other")):
        assert call("run", model, *options, "--trace", tmp_path / f"{name}.json",
                    "--output", tmp_path / f"{name}.npz") == 0
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "other.json").read_bytes()
    with np.load(tmp_path / "one.npz") as one, np.load(tmp_path / "other.npz") as other:
        np.testing.assert_array_equal(one["logits"], other["logits"])


def test_the_page_is_of_the_run(tmp_path, compiled) -> None:
    pytest.importorskip("plotly")
    assert call("run", compiled, "--report", tmp_path / "page.html") == 0
    page = (tmp_path / "page.html").read_text()
    assert "conv4 + add" in page and "virtual threads" in page


def test_what_it_says(tmp_path, capsys) -> None:
    path = tmp_path / "d.lockstep"
    assert call("compile", DIGITS, *TINY, "--threads", 1, "-o", path) == 0
    out, err = capsys.readouterr()
    assert err == "" and out.startswith(f"{path}: digits-int8.onnx for accel:tiny-1x4x4, ")
    assert re.search(rf"2 operators on the host with weights of [\d,]+ bytes, "
                     rf"{path.stat().st_size:,} bytes\n", out)
    with zipfile.ZipFile(path) as archive:
        assert json.loads(archive.read("manifest.json"))["settings"] == {
            "integerize": True, "threads": 1}


def test_for_the_host(tmp_path, capsys) -> None:
    path = tmp_path / "d.lockstep"
    assert call("compile", DIGITS, "--target", "cpu", "-o", path) == 0
    assert figures(tmp_path, path)["target"] == "cpu"
    capsys.readouterr()
    assert call("run", path, "--no-values") == 2
    assert "--no-values must be left out with --target cpu" in capsys.readouterr().err


def test_calibration(tmp_path, capsys) -> None:
    """Calibrating here, or with `lockstep quantize` first: the compiled files are equal."""
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((4, 1, 8, 8), np.float32))
    options = ["--calibration", tmp_path / "x.npy", "--keep-float", "conv2"]
    assert call("quantize", FLOAT, *options, "-o", tmp_path / FLOAT.name) == 0
    for number, given in enumerate(([FLOAT, *options], [tmp_path / FLOAT.name])):
        assert call("compile", *given, *TINY, "-o", tmp_path / str(number)) == 0
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()
    capsys.readouterr()
    assert call("compile", FLOAT, *TINY, "-o", tmp_path / "2") == 0
    assert "nothing runs on the accelerator: it computes int8" in capsys.readouterr().out


def test_options_of_the_quantizer_are_those_that_it_has() -> None:
    assert {*QUANTIZER} < {*compilation.QUANTIZER}


def test_dump(tmp_path, capsys) -> None:
    assert call("compile", DIGITS, *TINY, "-o", tmp_path / "d", "--dump", tmp_path / "texts") == 0
    names = [path.name for path in sorted((tmp_path / "texts").iterdir())]
    assert names[0] == "00-import.txt" and "04-clean-up.txt" in names
    kinds = [name[3:-4] for name in names]
    assert kinds[kinds.index("partition") + 1] == "layout"
    assert "integerize" in " ".join(names)
    own = kinds[kinds.index("layout") + 1:]
    assert len(own) == len({*own}) and own[-len(STAGES) - 3:] == ["fuse", "plan-memory", "kernels",
                                                                     *STAGES]
    places = {line for path in (tmp_path / "texts").iterdir()
              for line in path.read_text().splitlines() if line.startswith("segment ")
              and " on " in line}
    assert places == {"segment 0 on host", "segment 1 on accel", "segment 2 on host"}


def test_dump_of_a_network_in_c_has_its_own_passes_each_once(tmp_path) -> None:
    assert call("compile", DIGITS, "--emit", "c", "-o", tmp_path / "d.c", "--dump",
                tmp_path / "texts") == 0
    paths = sorted((tmp_path / "texts").iterdir())
    assert [int(path.name[:2]) for path in paths] == [*range(len(paths))]
    kinds = [path.name[3:-4] for path in paths]
    assert kinds[kinds.index("layout") + 1:] == [
        *(each.name for each in PASSES), "fuse", "plan-memory", "kernels"]
    assert all("conv1" in path.read_text() for path in paths[:2] + paths[-3:-2] + paths[-1:])
    assert "(vectorize):" in paths[-1].read_text()


def test_without_the_cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path / "cache"))
    assert call("compile", DIGITS, "--target", "cpu", "--no-cache", "-o", tmp_path / "one") == 0
    assert not (tmp_path / "cache" / "networks").exists()
    assert call("compile", DIGITS, "--target", "cpu", "-o", tmp_path / "other") == 0
    assert len(list((tmp_path / "cache" / "networks").glob("*/module.lockstep"))) == 1
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def refused(capsys, message: str, *args) -> None:
    capsys.readouterr()
    assert call(*args) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("lockstep: error: ") and err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize("option", [TINY, ["--threads", "2"], ["--bus-bytes", "8"],
                                    ["--shape", "n=1"], ["--no-integerize"], ["--no-cache"]])
def test_what_is_compiled_cannot_be_compiled_otherwise(capsys, compiled, option) -> None:
    refused(capsys, f"{option[0]} must be left out for {str(compiled)!r}: it is compiled",
            "run", compiled, *option)


def test_damaged_files(capsys, compiled, tmp_path) -> None:
    path = tmp_path / "d.lockstep"
    whole = compiled.read_bytes()
    path.write_bytes(whole[:-1000])
    refused(capsys, f"{path}: is not a compiled module, or not all of one", "run", path)
    path.write_bytes(whole.replace(b'"threads": 2', b'"threads": 1'))
    refused(capsys, f"{path}: ", "run", path)


@pytest.mark.parametrize(("message", "args"), [
    ("-o FILE must be given, or --emit", [DIGITS]),
    ("must name a file in a folder that exists", [DIGITS, "-o", "none/d.lockstep"]),
    ("no such file", ["none.onnx", "-o", "d.lockstep"]),
    ("Target must be accel:MACHINE", [DIGITS, "-o", "d.lockstep", "--target", "gpu"]),
    ("is not an ONNX file", [Path(__file__), "-o", "d.lockstep"]),
    ("--observer must come with --calibration FILE", [FLOAT, "--observer", "mse", "-o", "d"]),
    ("must be a folder that can be written", [DIGITS, "-o", "d", "--dump", Path(__file__)]),
])
def test_wrong_requests(capsys, tmp_path, monkeypatch, message: str, args) -> None:
    monkeypatch.chdir(tmp_path)
    refused(capsys, message, "compile", *args)
    assert list(tmp_path.iterdir()) == []


def test_programs_of_torch_compile_run_and_quantize(tmp_path, capsys) -> None:
    torch = pytest.importorskip("torch")
    from compiler.frontend.pytorch import programs as torch_export

    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()).eval()
    image = torch.ones(1, 3, 6, 6)
    path, samples = tmp_path / "net.pt2", tmp_path / "samples.npy"
    torch.export.save(torch_export.exported(module, image), path)
    np.save(samples, np.random.default_rng(0).random((4, 3, 6, 6), np.float32))
    inputs, made = tmp_path / "x.npz", tmp_path / "y.npz"
    np.savez(inputs, input=image.numpy())
    assert call("compile", path, "--target", "cpu", "-o", tmp_path / "net.lockstep") == 0
    for model, options in ((path, ["--target", "cpu"]), (tmp_path / "net.lockstep", [])):
        assert call("run", model, *options, "--input", inputs, "--output", made) == 0
        with np.load(made) as found, torch.no_grad():
            np.testing.assert_allclose(found["output"], module(image).numpy(), atol=1e-5)
    assert call("quantize", path, "--calibration", samples, "-o", tmp_path / "q.onnx") == 0
    assert call("run", tmp_path / "q.onnx", *TINY) == 0
    capsys.readouterr()
    path.write_bytes(b"")
    for command in (["compile", path, "-o", tmp_path / "no"], ["run", path], [
            "quantize", path, "--calibration", samples, "-o", tmp_path / "no.onnx"]):
        assert call(*command) == 2
        assert capsys.readouterr().err.count("\n") == 1
