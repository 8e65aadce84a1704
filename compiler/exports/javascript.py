"""A network in WebAssembly as a module of JavaScript (ES 2022): for pages, workers and Node.js."""

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files

import numpy as np

from compiler.te import is_float

from .check import BOUND, Sample
from .interface import CArray, CInterface

__all__ = ["javascript", "javascript_test"]


def javascript(of: CInterface) -> str:
    """The text of ``NAME.js``, which needs ``NAME.wasm`` beside it, and ``NAME.bin`` where weights
    are apart.
    """
    described = {
        "name": of.name, "hash": of.hash, "arena_bytes": of.arena_bytes,
        "code": f"./{of.name}.wasm",
        "weights": f"./{of.name}.bin" if of.weights_bytes else None,
        "inputs": _described(of.inputs), "outputs": _described(of.outputs),
        "status": [meaning for _, meaning in of.all_statuses]}
    lines = [f"// {of.title or of.name}: a network as WebAssembly.", "//",
             f'//     import {{ load }} from "./{of.name}.js";',
             "//     const network = await load();",
             f"//     const {{ {_words(of.outputs)} }} = network.run({{ {_words(of.inputs)} }});",
             "", f"const NETWORK = {json.dumps(described, indent=2)};", "",
             files("compiler.exports").joinpath("network.js").read_text(encoding="utf-8")]
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


def _words(arrays: Sequence[CArray]) -> str:
    return ", ".join(array.name if array.name.isidentifier() else json.dumps(array.name)
                     for array in arrays)


def _stored(arrays: Sequence[CArray], values: Mapping[str, np.ndarray]) -> dict[str, str]:
    """The bytes of each array, as hexadecimal digits."""
    return {array.name: np.ascontiguousarray(values[array.name]).tobytes().hex()
            for array in arrays}


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
