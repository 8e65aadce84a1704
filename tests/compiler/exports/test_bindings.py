"""Bindings: each language compiles its text, runs the digits, and gives the module's outputs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compiler.errors import ArgumentError
from compiler.exports import CArray, CInterface, ExportError, header, javascript, typescript
from compiler.exports.bindings import LANGUAGES, bindings
from examples.digits.data import held_out
from runtime import compile
from runtime.exporting.export import export

MODEL = Path(__file__).parents[3] / "examples" / "digits" / "digits-int8.onnx"
JDK = Path(os.path.realpath(shutil.which("javac") or "/none/bin/javac")).parents[1]


def needs(tool: str):
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is not installed")


@pytest.fixture(scope="module")
def module():
    return compile(MODEL, "cpu")


@pytest.fixture(scope="module")
def wanted(module) -> str:
    """The class of each of eight images, and the first logit of the first one."""
    logits = [module({"image": image[None]})["logits"][0] for image in held_out()[0][:8]]
    return " ".join([*(str(one.argmax()) for one in logits), f"{logits[0][0]:.4f}"])


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("images") / "images.f32"
    path.write_bytes(held_out()[0][:8].tobytes())
    return path


def told(*command: object, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, cwd=cwd,
                          env=None if env is None else {**os.environ, **env}, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


CPP = """\
#include <algorithm>
#include <cstdio>
#include <fstream>
#include "digits.hpp"

int main(int, char **words) {
    std::ifstream file(words[1], std::ios::binary);
    digits_lockstep::Network network%s;
    digits_lockstep::Network copy = network;
    float first = 0;
    for (int place = 0; place < 8; place++) {
        std::vector<float> image(64);
        std::array<float, 10> logits;
        file.read(reinterpret_cast<char *>(image.data()), 256);
        (place %% 2 ? copy : network).run(image, logits);
        if (!place) first = logits[0];
        std::printf("%%d ", int(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    }
    std::printf("%%.4f\\n", first);
    try {
        std::vector<float> image(63);
        float logits[10];
        network.run(image, logits);
    } catch (const std::invalid_argument &error) {
        std::puts(error.what());
    }
}
"""


@needs("g++")
@pytest.mark.parametrize("apart", [pytest.param(False, marks=pytest.mark.slow), True])
def test_cpp(module, wanted: str, images: Path, tmp_path: Path, apart: bool) -> None:
    export(module, tmp_path, "digits", apart=apart, bindings=["cpp"])
    (tmp_path / "main.cpp").write_text(CPP % ('(std::string("digits.bin"))' if apart else ""))
    told("g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic", "main.cpp", "digits.o",
         "-o", "main", cwd=tmp_path)
    assert told("./main", images, cwd=tmp_path).splitlines() == [
        wanted, "input image must have 64 elements, not 63"]
    if apart:
        (tmp_path / "digits.bin").write_bytes(bytes((tmp_path / "digits.bin").stat().st_size))
        done = subprocess.run(["./main", str(images)], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode and "weights are those of another network" in done.stderr


PYTHON = """\
import sys
import numpy as np
import digits

assert not any(name.split(".")[0] in ("lockstep", "compiler", "runtime") for name in sys.modules)
network = digits.Network()
images = np.fromfile(sys.argv[1], np.float32).reshape(8, 1, 1, 8, 8)
logits = [network(image=image)["logits"][0] for image in images]
print(*(one.argmax() for one in logits), f"{logits[0][0]:.4f}")
for wrong in ({}, {"image": images}, {"image": images[0].astype(float)}, {"picture": images[0]}):
    try:
        network(**wrong)
    except ValueError as error:
        print(error)
"""


@pytest.mark.parametrize("apart", [pytest.param(False, marks=pytest.mark.slow), True])
def test_python(module, wanted: str, images: Path, tmp_path: Path, apart: bool) -> None:
    export(module, tmp_path, "digits", apart=apart, kind="shared", bindings=["python"])
    (tmp_path / "main.py").write_text(PYTHON)
    assert told(sys.executable, "main.py", images, cwd=tmp_path).splitlines() == [
        wanted, "Input image must be float32 of shape (1, 1, 8, 8), not object of shape ()",
        "Input image must be float32 of shape (1, 1, 8, 8), not float32 of shape (8, 1, 1, 8, 8)",
        "Input image must be float32 of shape (1, 1, 8, 8), not float64 of shape (1, 1, 8, 8)",
        "Input must be one of image, not 'picture'"]


NODE = """\
import { readFile } from "node:fs/promises";
import { inputs, load, typed } from "./digits.mjs";

const memory = Uint8Array.from(await readFile(process.argv[2])).buffer;
const networks = [await load(), await load("./libdigits.so", await readFile("./digits.bin"))];
const logits = [];
for (let place = 0; place < 8; place++) {
  const begin = 256 * place;
  const image = typed(inputs.image, memory.slice(begin, begin + 256));
  logits.push(networks[place %% 2].run({ image }).logits);
}
const best = logits.map(one => one.indexOf(Math.max(...one)));
console.log(best.join(" "), logits[0][0].toFixed(4));
const image = new Float32Array(64);
for (const wrong of [
  () => networks[0].run({ image: new Float32Array(63) }), () => networks[0].run({ picture: image }),
  () => networks[0].run({ image: new Float64Array(64) }), () => load(undefined, null),
  () => load(undefined, new Uint8Array(5)), () => load(undefined, new Uint8Array(%d))]) {
  try {
    await wrong();
    console.log("not refused");
  } catch (error) {
    console.log(error.message);
  }
}
"""
_KOFFI = next((Path(folder) for folder in os.environ.get("NODE_PATH", "").split(os.pathsep)
               if folder and (Path(folder) / "koffi").is_dir()), None)
with_koffi = pytest.mark.skipif(_KOFFI is None, reason="koffi is not in NODE_PATH (npm install "
                                                       "koffi; NODE_PATH=.../node_modules)")


@needs("node")
@with_koffi
def test_node(module, wanted: str, images: Path, tmp_path: Path) -> None:
    made = export(module, tmp_path, "digits", apart=True, kind="shared", bindings=["node"])
    size = made.exported.interface.weights_bytes
    (tmp_path / "main.mjs").write_text(NODE % size)
    assert _KOFFI is not None
    (tmp_path / "node_modules").symlink_to(_KOFFI.resolve())        # modules ignore NODE_PATH
    image = "Input image must be a Float32Array of 64 elements"
    assert told("node", "main.mjs", images, cwd=tmp_path).splitlines() == [
        wanted, image, image, image, "the weights are missing, not aligned, or inside",
        f"weights must have {size} bytes, not 5",
        "the weights are those of another network or machine"]


def test_both_modules_of_javascript_are_the_same_to_a_program() -> None:
    """All but how code is loaded, and the types that `load` takes."""
    of = CInterface("net", "00" * 32, (CArray("x", "int64", (2,)),), (), 64, weights_bytes=128)
    texts = bindings(of, "node")
    shared, loader = texts["net.mjs"].split("const ARRAYS")[1].split("\n/**\n * The network,")
    assert javascript(of).split("const ARRAYS")[1].startswith(shared)
    assert loader.startswith(" ready to run.") and "export async function load(" in loader
    same = [[line for line in text.splitlines() if not line.startswith("export function load(")]
            for text in (typescript(of), texts["net.d.mts"])]
    assert same[0] == same[1] and '  run(given: { "x": BigInt64Array; }): { };' in same[0]


JAVA = """\
import java.nio.*;
import java.nio.file.*;

class Main {
    public static void main(String[] words) throws Exception {
        FloatBuffer all = ByteBuffer.wrap(Files.readAllBytes(Path.of(words[0])))
            .order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer();
        Digits network = %s;
        float first = 0;
        for (int place = 0; place < 8; place++) {
            float[] image = new float[64], logits = new float[10];
            all.get(image);
            network.run(image, logits);
            int best = 0;
            for (int n = 0; n < 10; n++) if (logits[n] > logits[best]) best = n;
            if (place == 0) first = logits[0];
            System.out.print(best + " ");
        }
        System.out.printf("%%.4f%%n", first);
        try {
            network.run(new float[63], new float[10]);
        } catch (IllegalArgumentException error) {
            System.out.println(error.getMessage());
        }
    }
}
"""


@pytest.mark.slow
@needs("javac")
@pytest.mark.parametrize("apart", [False, True])
def test_java(module, wanted: str, images: Path, tmp_path: Path, apart: bool) -> None:
    export(module, tmp_path, "digits", apart=apart, bindings=["java"])
    (tmp_path / "Main.java").write_text(
        JAVA % ('Digits.of(Path.of("digits.bin"))' if apart else "new Digits()"))
    include = JDK / "include"
    told("gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{include}",
         f"-I{include / 'linux'}", "digits_jni.c", "digits.o", "-o", "libdigits_jni.so",
         cwd=tmp_path)
    told("javac", "-Xlint:all", "-Werror", "Main.java", "Digits.java", cwd=tmp_path)
    said = told("java", "-Djava.library.path=.", "Main", images, cwd=tmp_path)
    assert said.splitlines() == [wanted, "image must have 64 elements, not 63"]


@pytest.mark.slow
@needs("javac")
@needs("aarch64-linux-gnu-gcc")
def test_a_library_for_android_needs_no_other(module, tmp_path: Path) -> None:
    """As docs/languages.md has it."""
    export(module, tmp_path, "digits", machine="armv8-a", bindings=["java"])
    include = JDK / "include"
    told("aarch64-linux-gnu-gcc", "-O2", "-fPIC", "-shared", "-nostdlib",
         "-Wl,-z,max-page-size=16384", f"-I{include}", f"-I{include / 'linux'}", "digits_jni.c",
         "digits.o", "-o", "libdigits_jni.so", cwd=tmp_path)
    said = told("readelf", "-dlsW", "libdigits_jni.so", cwd=tmp_path)
    assert "NEEDED" not in said and "TEXTREL" not in said
    assert {line.split()[-1] for line in said.splitlines() if " LOAD " in f" {line} "} == {"0x4000"}
    called = {line.split()[7] for line in said.splitlines()
              if " UND " in line and len(line.split()) > 7}
    assert called <= {"memcpy", "memset", "memmove"}


RUST = """\
mod digits;

fn main() {
    let bytes = std::fs::read(std::env::args().nth(1).unwrap()).unwrap();
    let number = |b: &[u8]| f32::from_le_bytes(b.try_into().unwrap());
    let all: Vec<f32> = bytes.chunks(4).map(number).collect();
    let mut network = digits::Network::new().unwrap();
    let mut first = 0.0;
    for place in 0..8 {
        let image: &[f32; 64] = all[64 * place..64 * place + 64].try_into().unwrap();
        let mut logits = [0f32; 10];
        network.run(image, &mut logits).unwrap();
        if place == 0 { first = logits[0]; }
        let best = (0..10).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
        print!("{} ", best);
    }
    println!("{:.4}", first);
}
"""


@pytest.mark.slow
@needs("rustc")
def test_rust(module, wanted: str, images: Path, tmp_path: Path) -> None:
    export(module, tmp_path, "digits", kind="static", bindings=["rust"])
    (tmp_path / "main.rs").write_text(RUST)
    told("rustc", "--edition", "2021", "-O", "-D", "warnings", "main.rs", "-L", ".", "-l",
         "static=digits", "-o", "main", cwd=tmp_path)
    assert told("./main", images, cwd=tmp_path) == wanted


ODD = (CArray("class", "int8", (2,)), CArray("x", "float16", ()), CArray("3 d", "bool", (1,)))


def test_names_of_all_kinds_make_texts() -> None:
    """Words of a language, names that inputs and outputs share, scalars, no inputs."""
    for inputs in ((), ODD):
        of = CInterface("a_network", "00" * 32, inputs, ODD, 64)
        for language in LANGUAGES:
            assert all(text.endswith("\n") for text in bindings(of, language).values())


@pytest.mark.slow
def test_an_odd_interface_compiles(tmp_path: Path) -> None:
    for place, inputs in enumerate(((), ODD)):
        of = CInterface(f"a_{place}", "00" * 32, inputs, ODD, 64, weights_bytes=128 * place)
        (tmp_path / f"a_{place}.h").write_text(header(of))
        for name, text in {**bindings(of, "cpp"), **bindings(of, "python")}.items():
            (tmp_path / name).write_text(text)
        (tmp_path / f"{place}.cpp").write_text(f'#include "a_{place}.hpp"\nint main() {{}}\n')
        told("g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only",
             f"{place}.cpp", cwd=tmp_path)
        told(sys.executable, "-m", "py_compile", f"a_{place}.py", cwd=tmp_path)
        if shutil.which("node"):
            (tmp_path / f"a_{place}.mjs").write_text(bindings(of, "node")[f"a_{place}.mjs"])
            told("node", "--check", f"a_{place}.mjs", cwd=tmp_path)


def test_wrong_bindings_are_refused(module, tmp_path: Path) -> None:
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
            ({"bindings": ["cobol"]}, "bindings must be of cpp, python, java, rust, node, "
                                      "not 'cobol'"),
            ({"bindings": ["python"]}, "kind must be shared for a module of Python, which loads "
                                       "it, not object"),
            ({"bindings": ["node"], "kind": "static"}, "kind must be shared for a module of "
             "Node.js, which loads it, not static"),
            ({"bindings": ["cpp"], "machine": "wasm32"}, "bindings must be left out for a "
             "WebAssembly module, which has its module of JavaScript"))
    for options, said in wrong:
        with pytest.raises(ArgumentError) as refusal:
            export(module, tmp_path, **options)
        assert str(refusal.value) == said
    assert not list(tmp_path.iterdir())
    with pytest.raises(ExportError, match="^Type of an array must be one that C has, not int24"):
        CArray("x", "int24", (1,))
