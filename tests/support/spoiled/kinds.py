"""The kinds of input that `robustness.fuzz` spoils: each kind makes a case from sound files.

A kind is a function of a random generator, an empty folder and the sound files. It fills the folder
and returns the command line to run there, with its expected outputs.
"""

import argparse
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import onnx

from tests.support.spoiled import onnx_bombs, onnx_mutations
from tests.support.spoiled.onnx_mutations import MODEL, MODELS, MUTATIONS
from tests.support.spoiled.arrays import save_arrays, spoiled_archive
from tests.support.spoiled.text import damage, spoiled_toml

__all__ = ["ANY", "KINDS", "PEER", "SAME", "Case", "Kind", "sound_files"]

Rng = np.random.Generator
PEER, SAME, ANY = "peer", "same", "any"
INPUTS, RESULT, WANTED = "inputs.npz", "result.npz", "wanted.npz"
GEOMETRY = "tiny-1x4x4"
TARGETS = ("cpu", "cpu", f"accel:{GEOMETRY}")
LARGEST_CONSTANT = 1e30
LARGEST_INPUT = 1 << 20     # the most elements of inputs that we make; the command makes others


@dataclass(frozen=True, slots=True)
class Case:
    """A command line for the folder of the case.

    `expect` says what result.npz must be where there is one: PEER, what another implementation
    makes of model.onnx and inputs.npz; SAME, what wanted.npz has; ANY. `share` is how far elements
    may be apart, of the largest. `cpu_seconds` bounds the processor time.
    """

    kind: str
    what: str
    arguments: tuple[str, ...]
    expect: str
    share: float = 1e-4
    cpu_seconds: int = 10


Kind = Callable[[Rng, Path, Path], Case]


# ---- networks ------------------------------------------------------------------------------------


def spoiled_model(rng: Rng, folder: Path, sound: Path) -> Case:
    """Spoils a small model by one or two mutations of `tests.support.spoiled.onnx_mutations`."""
    model = str(rng.choice(list(MODELS)))
    onnx_mutations.write(model, folder)
    chosen = [MUTATIONS[int(place)] for place in
              rng.integers(len(MUTATIONS), size=1 if rng.random() < 0.7 else 2)]
    for mutate in chosen:
        try:
            mutate(rng, folder)
        except Exception:       # noqa: BLE001 - the first mutation left no model
            break
    what = f"{model}, {' and '.join(one.__name__ for one in chosen)}"
    return _of_model("onnx", what, rng, folder, 0.05 if model == "quantized" else 1e-4)


def bomb(rng: Rng, folder: Path, sound: Path) -> Case:
    """Makes a tiny model that asks for too much memory or time, or for just little enough."""
    name = str(rng.choice(list(onnx_bombs.BOMBS)))
    (folder / MODEL).write_bytes(onnx_bombs.BOMBS[name](rng))
    return _of_model("bomb", name, rng, folder, 1e-4)


def _of_model(kind: str, what: str, rng: Rng, folder: Path, share: float) -> Case:
    inputs = _inputs(folder / MODEL, rng)
    target = str(rng.choice(TARGETS))
    options = ("--target", target, "--no-cache")
    if inputs is None and rng.random() < 0.5:
        return Case(kind, what, ("compile", MODEL, *options, "-o", "made.lockstep"), ANY)
    save_arrays(folder / INPUTS, inputs or {})
    if kind == "onnx" and rng.random() < 0.15:
        return Case(kind, f"quantized, {what}", ("quantize", MODEL, "--calibration", INPUTS, "-o",
                                                 "int8.onnx"), ANY)
    given = ("--input", INPUTS) if inputs is not None else ()
    return Case(kind, what, ("run", MODEL, *options, "--sim", "functional", *given,
                             "--output", RESULT),
                PEER if given and not _is_open(folder / MODEL) else ANY, share)


def _is_open(path: Path) -> bool:
    """Whether ONNX leaves open what the model computes, in the cases met so far."""
    try:
        graph = onnx.load(path).graph
        return _overflows(graph) or any(map(_pools_padding, graph.node))
    except Exception:       # noqa: BLE001 - a spoiled file: whatever onnx makes of it
        return False


def _overflows(graph: onnx.GraphProto) -> bool:
    """Whether large constants may sum to inf - inf, which is then converted to an integer."""
    arrays = [onnx.numpy_helper.to_array(one) for one in graph.initializer]
    return any(array.dtype.kind == "f" and not np.all(np.abs(array) < LARGEST_CONSTANT)
               for array in arrays)


def _pools_padding(node: onnx.NodeProto) -> bool:
    """Whether a maximum may be one of padding alone."""
    lists = {one.name: one.ints for one in node.attribute}
    return (node.op_type == "MaxPool"
            and max(lists.get("pads", ()), default=0) >= min(lists.get("kernel_shape", ()),
                                                             default=1))


def _inputs(path: Path, rng: Rng) -> dict[str, np.ndarray] | None:
    """Arrays that fit the model's inputs; None where nobody can tell."""
    try:
        graph = onnx.load(path, load_external_data=False).graph
        constant = {one.name for one in graph.initializer}
        made = {}
        for value in graph.input:
            tensor = value.type.tensor_type
            shape = [dim.dim_value for dim in tensor.shape.dim]
            if value.name in constant:
                continue
            if min(shape, default=1) < 1 or np.prod([float(one) for one in shape]) > LARGEST_INPUT:
                return None
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            if dtype.kind == "O":       # texts, which archives do not hold
                return None
            made[value.name] = rng.random(shape).astype(dtype)
        return made
    except Exception:       # noqa: BLE001 - a spoiled file: whatever onnx makes of it
        return None


# ---- files beside networks -----------------------------------------------------------------------


def spoiled_inputs(rng: Rng, folder: Path, sound: Path) -> Case:
    """An .npz archive of inputs, or of calibration samples, that is not what it should be."""
    shutil.copy(sound / "float.onnx", folder / MODEL)
    what = spoiled_archive(rng, folder / INPUTS, dict(np.load(sound / "float-inputs.npz")))
    if rng.random() < 0.3:
        return Case("npz", f"calibration, {what}",
                    ("quantize", MODEL, "--calibration", INPUTS, "-o", "int8.onnx"), ANY)
    shutil.copy(sound / "float.lockstep", folder)
    return Case("npz", what, ("run", "float.lockstep", "--input", INPUTS, "--output", RESULT), PEER)


def spoiled_geometry(rng: Rng, folder: Path, sound: Path) -> Case:
    """A TOML file of another machine, or of none."""
    text, what = spoiled_toml(rng, (sound / "geometry.toml").read_bytes())
    (folder / "geometry.toml").write_bytes(text)
    action = rng.random()
    if action < 0.2:
        return Case("toml", what, ("configs", "geometry.toml"), ANY)
    if action < 0.3:
        return Case("toml", what, ("isa", "--config", "geometry.toml"), ANY)
    for name, new in (("int8.onnx", MODEL), ("int8-inputs.npz", INPUTS), ("int8.npz", WANTED)):
        shutil.copy(sound / name, folder / new)
    return Case("toml", what, ("run", MODEL, "--target", "accel:geometry.toml", "--sim",
                               "functional", "--no-cache", "--input", INPUTS, "--output", RESULT),
                SAME, 0.0)


def spoiled_artifact(rng: Rng, folder: Path, sound: Path) -> Case:
    """A compiled module with other bytes, or with another content behind right hashes."""
    name = str(rng.choice(["float", "int8"]))
    path = folder / f"{name}.lockstep"
    shutil.copy(sound / path.name, path)
    shutil.copy(sound / f"{name}-inputs.npz", folder / INPUTS)
    shutil.copy(sound / f"{name}.npz", folder / WANTED)
    sealed = rng.random() < 0.5
    if sealed:
        what = _seal_anew(rng, path)
    else:
        data, what = damage(rng, path.read_bytes())
        path.write_bytes(data)
    return Case("artifact", f"{name}, {what}",
                ("run", path.name, "--sim", "functional", "--input", INPUTS, "--output", RESULT),
                ANY if sealed else SAME)


def _seal_anew(rng: Rng, path: Path) -> str:
    """Changes a member or a value of the manifest and gives the archive right hashes."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members.pop("manifest.json"))
    del members["manifest.sha256"]
    name = str(rng.choice(sorted(members)))
    action = int(rng.integers(4))
    if action == 0:
        members[name] = members[name][:int(rng.integers(len(members[name]) + 1))]
        what = f"shorter {name}"
    elif action == 1:
        del members[name]
        what = f"without {name}"
    else:
        what = f"manifest: {_spoil_json(rng, manifest)}"
    if isinstance(manifest.get("members"), dict):
        manifest["members"] = {name: {"bytes": len(data), "sha256": sha256(data).hexdigest()}
                               for name, data in members.items()}
    text = json.dumps(manifest).encode()
    seal = f"{sha256(text).hexdigest()}  manifest.json\n".encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (*members.items(), ("manifest.json", text), ("manifest.sha256", seal)):
            archive.writestr(name, data)
    return what


def _spoil_json(rng: Rng, tree) -> str:
    """Another value at some place of the tree."""
    place, inner = [], tree
    while True:
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        key = keys[int(rng.integers(len(keys)))]
        place.append(str(key))
        if not (isinstance(inner[key], dict | list) and inner[key]) or rng.random() < 0.02:
            break
        inner = inner[key]
    values = [None, True, -1, 0, 1, 2, 7, 1 << 40, 1 << 70, 0.5, "", "x", [], {}, [[]], [1, 2]]
    new = values[int(rng.integers(len(values)))]
    if rng.random() < 0.1:
        del inner[key]
    else:
        inner[key] = new
    return f"{'.'.join(place)} = {new!r}"


def spoiled_cache(rng: Rng, folder: Path, sound: Path) -> Case:
    """A cache some of whose files are damaged, missing, or something else."""
    name = str(rng.choice(["float", "int8"]))
    shutil.copytree(sound / f"{name}-cache", folder / "cache")
    for source, new in ((f"{name}.onnx", MODEL), (f"{name}-inputs.npz", INPUTS),
                        (f"{name}.npz", WANTED)):
        shutil.copy(sound / source, folder / new)
    done = [_spoil_entry(rng, folder / "cache") for _ in range(int(rng.integers(1, 4)))]
    return Case("cache", f"{name}, {'; '.join(done)}",
                ("run", MODEL, *CACHED[name], "--input", INPUTS, "--output", RESULT), SAME,
                cpu_seconds=60)         # native code may be compiled anew


CACHED = {"float": ("--target", "cpu"),
          "int8": ("--target", f"accel:{GEOMETRY}", "--sim", "functional")}


def _spoil_entry(rng: Rng, cache: Path) -> str:
    files = sorted(path for path in cache.rglob("*") if path.is_file())
    if not files:
        return "nothing"
    path = files[int(rng.integers(len(files)))]
    actions = ("bytes", "bytes", "bytes", "empty", "missing", "folder", "link", "mode", "swap",
               "no folder")
    action = actions[int(rng.integers(len(actions)))]
    match action:
        case "bytes":
            data, action = damage(rng, path.read_bytes())
            path.write_bytes(data)
        case "empty": path.write_bytes(b"")
        case "missing": path.unlink()
        case "folder":
            path.unlink()
            path.mkdir()
        case "link":
            path.unlink()
            path.symlink_to(str(rng.choice(["missing", "/dev/null", "/dev/zero", ".", path.name])))
        case "mode": path.chmod(int(rng.choice([0, 0o444, 0o666, 0o777])))
        case "swap": shutil.copy(files[int(rng.integers(len(files)))], path.with_name("scratch"))
        case "no folder": shutil.rmtree(path.parent)
    if action == "swap":
        os.replace(path.with_name("scratch"), path)
    return f"{action} {path.relative_to(cache)}"


# ---- command lines -------------------------------------------------------------------------------


def spoiled_arguments(rng: Rng, folder: Path, sound: Path) -> Case:
    """A command with options and values that the parsers know, and others."""
    from lockstep.cli import make_parser

    for name in ("float.onnx", "float.lockstep", "float-inputs.npz", "int8.onnx", "geometry.toml"):
        shutil.copy(sound / name, folder)
    commands = _choices(make_parser())
    command = str(rng.choice(["run", "run", "run", "compile", "compile", "quantize", "configs",
                              "isa", "fpga"]))
    parser, line = commands[command], [command]
    if command == "fpga":
        below = _choices(parser)
        line.append(str(rng.choice(sorted(below))))
        parser = below[line[-1]]
    line += _arguments(rng, parser, spoiled=command == "fpga")
    case = Case("arguments", " ".join(line)[:300], tuple(line), ANY)
    # The RTL is compiled first, where it is not kept.
    return replace(case, cpu_seconds=60) if "verilator" in line else case


def _choices(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    return next(action.choices for action in parser._actions
                if isinstance(action, argparse._SubParsersAction))


def _arguments(rng: Rng, parser: argparse.ArgumentParser, spoiled: bool) -> list[str]:
    """Picks options of the parser; `spoiled` ones have at least one invalid value."""
    made: list[str] = []
    for action in parser._actions:
        wanted = not action.option_strings or action.required
        if rng.random() > (0.95 if wanted else 0.12):
            continue
        if action.option_strings:
            made.append(str(rng.choice(action.option_strings)))
        if action.nargs == 0:
            continue
        made += [_value(rng, action) for _ in range(2 if action.nargs == "+" and rng.random() < 0.3
                                                    else 1)]
    if rng.random() < 0.05 or spoiled:
        made.insert(int(rng.integers(len(made) + 1)), str(rng.choice(STRANGE)))
    return made


FILES = ("float.onnx", "float.lockstep", "float-inputs.npz", "int8.onnx", "geometry.toml")
STRANGE = ("", " ", "-", "--", "--x", "-1", "0", "nan", "inf", "1e400", "1" * 5000, "²", "\u0660",
           "a" * 300, "a/" * 3000, ".", "..", "/", "/dev/null", "/dev/full", "/proc/self/mem",
           "missing", "missing/x", "x=1", "=", "x=", "a\nb", "\udcff", "%s%n", "{0}", "$(x)",
           "cpu", "cpu:", "accel:", "auto:", "accel:missing", "accel:tiny-1x4x4", "🙂")
GOOD: Mapping[str, Sequence[str]] = {
    "model": ("float.onnx", "float.lockstep", "int8.onnx"), "output": ("out.x", "out.npz"),
    "input": ("float-inputs.npz",), "calibration": ("float-inputs.npz",),
    "target": ("cpu", "accel:tiny-1x4x4", "auto:tiny-1x4x4", "accel:geometry.toml"),
    "threads": ("1", "2"), "json": ("r.json",), "trace": ("t.json", "t.vcd"),
    "name": ("tiny-1x4x4", "geometry.toml"), "config": ("tiny-1x4x4", "geometry.toml"),
    "shape": ("N=1",), "pin": ("Conv=host", "Gemm=accel"), "report": ("report.html",),
    "sim": ("functional", "cycle"), "budget": ("1", "30dB"), "dump": ("dumped",)}


def _value(rng: Rng, action: argparse.Action) -> str:
    pick = rng.random()
    if pick < 0.7 and action.dest in GOOD:
        return str(rng.choice(GOOD[action.dest]))
    if pick < 0.8 and action.choices:
        return str(rng.choice([str(one) for one in action.choices]))
    if pick < 0.85:
        return str(rng.choice(FILES))
    if pick < 0.92:
        return str(int(rng.choice([0, 1, 2, 7, 64, 1000])))
    return STRANGE[int(rng.integers(len(STRANGE)))]


# ---- sound files ---------------------------------------------------------------------------------


def sound_files(folder: Path, run: Callable[[Sequence[str], Path], None]) -> None:
    """Makes the files that cases start from: a float and an int8 network with inputs, outputs,
    compiled modules and caches, and a geometry. `run` runs a command line in a folder, with its
    cache.
    """
    from accel.machine.config import preset

    rng = np.random.default_rng(0)
    onnx.save(onnx_mutations.convolutions(), folder / "float.onnx")
    onnx.save(onnx_mutations.quantized(), folder / "int8.onnx")
    (folder / "geometry.toml").write_text(preset(GEOMETRY).to_toml())
    for name, options in CACHED.items():
        given = _inputs(folder / f"{name}.onnx", rng)
        assert given is not None
        save_arrays(folder / f"{name}-inputs.npz", given)
        run(["compile", f"{name}.onnx", *options[:2], "-o", f"{name}.lockstep"], folder)
        run(["run", f"{name}.onnx", *options, "--input", f"{name}-inputs.npz",
             "--output", f"{name}.npz"], folder)
        (folder / "cache").rename(folder / f"{name}-cache")


KINDS: Mapping[str, Kind] = {
    "onnx": spoiled_model, "bomb": bomb, "npz": spoiled_inputs, "toml": spoiled_geometry,
    "artifact": spoiled_artifact, "cache": spoiled_cache, "arguments": spoiled_arguments}
