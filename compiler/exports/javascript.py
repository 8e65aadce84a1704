"""A network as a module of JavaScript (ES 2022): WebAssembly for pages, workers and Node.js, or a
shared library for Node.js, which koffi calls (an npm package). Both give programs the same.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files

import numpy as np

from compiler.te import is_float

from .check import BOUND, Sample
from .interface import CArray, CInterface

_ARRAYS = {"bool": "Uint8Array", "float16": "Uint16Array", "bfloat16": "Uint16Array",
           "int64": "BigInt64Array", "uint64": "BigUint64Array",
           **{f"{kind}{size}": f"{kind.capitalize()}{size}Array".replace("Ui", "UI")
              for kind in ("int", "uint") for size in (8, 16, 32)},
           "float32": "Float32Array", "float64": "Float64Array"}


def javascript(of: CInterface) -> str:
    """The text of ``NAME.js``, which needs ``NAME.wasm`` beside it, and ``NAME.bin`` where weights
    are apart.
    """
    return _module(of, f"{of.name}.js", f"{of.name}.wasm", "a network as WebAssembly.",
                   "webassembly.js")


def node(of: CInterface) -> str:
    """The text of ``NAME.mjs``, which needs ``libNAME.so`` beside it, and ``NAME.bin`` where
    weights are apart.
    """
    return _module(of, f"{of.name}.mjs", f"lib{of.name}.so",
                   "a network in a shared library, for Node.js. Needs: npm install koffi",
                   "native.js", _IMPORTS)


def typescript(of: CInterface, native: bool = False) -> str:
    """The types of either module: ``NAME.d.ts`` of `javascript`, or ``NAME.d.mts`` of `node`."""
    data = "URL | string | ArrayBuffer | ArrayBufferView"
    return _TYPES.format(title=of.title or of.name,
                         code="URL | string" if native else f"{data} | Response",
                         weights=f"{data} | null" if native else f"{data} | Response | null",
                         inputs=_typed(of.inputs, lambda array: "Value"),
                         outputs=_typed(of.outputs, lambda array: "Value"),
                         given=_typed(of.inputs, lambda array: _ARRAYS[array.dtype]),
                         made=_typed(of.outputs, lambda array: _ARRAYS[array.dtype]))


def _module(of: CInterface, file: str, code: str, what: str, loader: str, imports: str = "") -> str:
    described = {
        "name": of.name, "hash": of.hash, "arena_bytes": of.arena_bytes,
        "alignment": max(of.arena_alignment, of.weights_alignment), "code": f"./{code}",
        "weights": f"./{of.name}.bin" if of.weights_bytes else None,
        "weights_bytes": of.weights_bytes,
        "inputs": _described(of.inputs), "outputs": _described(of.outputs),
        "status": [meaning for _, meaning in of.all_statuses]}
    lines = [f"// {of.title or of.name}: {what}", "//",
             f'//     import {{ load }} from "./{file}";',
             "//     const network = await load();",
             f"//     const {{ {_words(of.outputs)} }} = network.run({{ {_words(of.inputs)} }});",
             imports, f"const NETWORK = {json.dumps(described, indent=2)};", "",
             *(files("compiler.exports").joinpath(name).read_text(encoding="utf-8")
               for name in ("network.js", loader))]
    return "\n".join(lines)


def javascript_test(of: CInterface, samples: Sequence[Sample], bound: float = BOUND) -> str:
    """The text of ``NAME_test.mjs``: runs the module in Node.js on stored inputs, and compares with
    stored outputs as `check_program` does.
    """
    stored = [{"inputs": _stored(of.inputs, sample.inputs),
               "outputs": _stored(of.outputs, sample.outputs)} for sample in samples]
    exact = {array.name: not is_float(array.dtype) for array in of.outputs}
    return _TEST.format(name=of.name, stored=json.dumps(stored), exact=json.dumps(exact),
                        bound=bound)


def _described(arrays: Sequence[CArray]) -> dict[str, dict]:
    return {array.name: {"type": array.dtype, "shape": list(array.shape),
                         **({} if array.scale is None else {
                             "scale": array.scale, "zero_point": array.zero_point})}
            for array in arrays}


def _typed(arrays: Sequence[CArray], type_of: Callable[[CArray], str]) -> str:
    """A type of TypeScript: an object with a field for each array."""
    return "{ " + "".join(f"{json.dumps(array.name)}: {type_of(array)}; "
                          for array in arrays) + "}"


def _words(arrays: Sequence[CArray]) -> str:
    return ", ".join(array.name if array.name.isidentifier() else json.dumps(array.name)
                     for array in arrays)


def _stored(arrays: Sequence[CArray], values: Mapping[str, np.ndarray]) -> dict[str, str]:
    """The bytes of each array, as hexadecimal digits."""
    return {array.name: np.ascontiguousarray(values[array.name]).tobytes().hex()
            for array in arrays}


_IMPORTS = """
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import koffi from "koffi";
"""

_TYPES = """\
// {title}

/** An input or output: its type, its shape, and where it is quantized scale and zero point. */
export interface Value {{
  type: string;
  shape: number[];
  scale?: number;
  zero_point?: number;
}}

export const inputs: {inputs};
export const outputs: {outputs};

/** A typed array of an input or output, with these bytes. */
export function typed(value: Value, buffer: ArrayBuffer): ArrayBufferView;

/** A network with memory of its own. */
export interface Network {{
  /** One inference: arrays in row-major order. The results are copies. */
  run(given: {given}): {made};
}}

/** The network, ready to run. */
export function load(code?: {code}, weights?: {weights}): Promise<Network>;
"""

_TEST = """\
// Runs {name} in Node.js on stored inputs and compares with stored outputs.

import {{ inputs, load, outputs, typed }} from "./{name}.js";

const STORED = {stored};
const EXACT = {exact}, BOUND = {bound};

const network = await load();
let wrong = 0;
for (const sample of STORED) {{
  const made = network.run(decoded(sample.inputs, inputs));
  for (const [name, wanted] of Object.entries(decoded(sample.outputs, outputs))) {{
    const number = value => typeof value === "bigint" ? Number(value) : value;
    const a = Array.from(made[name], number), b = Array.from(wanted, number);
    const largest = Math.max(1, ...b.map(Math.abs).filter(Number.isFinite));
    const bad = a.filter((value, n) => !(Object.is(value, b[n]) || value === b[n]
      || !EXACT[name] && Math.abs(value - b[n]) <= BOUND * largest)).length;
    console.log(`${{name}}: ${{bad}} of ${{b.length}} elements differ`);
    wrong += bad;
  }}
}}
process.exit(wrong ? 1 : 0);

function decoded(texts, arrays) {{
  return Object.fromEntries(Object.entries(texts).map(([name, text]) => {{
    const bytes = Uint8Array.from(text.match(/../g) ?? [], pair => parseInt(pair, 16));
    return [name, typed(arrays[name], bytes.buffer)];
  }}));
}}
"""
