"""Networks in WebAssembly: in a page, and in Node.js beside ONNX Runtime Web.

`page`: the page of examples/browser, in Chromium: milliseconds from the start of loading to the
first answer (`wasm_page_ms`, the least of ten), and the bytes of module and weights
(`wasm_page_kib`).

`node`: networks of `lockstep.testing` run in turns with ONNX Runtime Web's build for one thread,
which ``npm install onnxruntime-web`` puts into FOLDER/node_modules of ``--peer FOLDER``;
`wasm_NAME` is our least time over its.
"""

import json
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

import onnx

from bench.frame import Bench, Sheet
from compiler.errors import RequestError
from examples.browser.build import build, server
from lockstep.testing import zoo
from runtime import compile
from runtime.exporting.export import export
from tests.support.chromium import page_of

ROUNDS = 20
NODE = """\
import ort from "{peer}/node_modules/onnxruntime-web/dist/ort.wasm.min.mjs";
import fs from "node:fs";
import {{ inputs, load }} from "./{name}.js";

ort.env.wasm.numThreads = 1;
const network = await load();
const session = await ort.InferenceSession.create(fs.readFileSync("{model}"),
                                                  {{ executionProviders: ["wasm"] }});
const given = Object.fromEntries(Object.entries(inputs).map(([name, {{ shape }}]) => [
  name, Float32Array.from({{ length: shape.reduce((a, b) => a * b, 1) }},
                          (_, n) => n * 7919 % 200 / 200)]));
const theirs = Object.fromEntries(Object.entries(inputs).map(([name, {{ shape }}]) => [
  name, new ort.Tensor("float32", given[name], shape)]));
const least = {{ ours: Infinity, theirs: Infinity }};
let off = 0;
for (let round = 0; round < {rounds}; round++) {{
  let begin = performance.now();
  const a = network.run(given);
  least.ours = Math.min(least.ours, performance.now() - begin);
  begin = performance.now();
  const b = await session.run(theirs);
  least.theirs = Math.min(least.theirs, performance.now() - begin);
  for (const [name, values] of Object.entries(a)) {{
    const most = Math.max(...b[name].data.map(Math.abs));
    values.forEach((value, n) => {{
      off = Math.max(off, Math.abs(value - b[name].data[n]) / most);
    }});
  }}
}}
console.log(JSON.stringify({{ ...least, off }}));
"""

BENCH = Bench(__file__, __doc__)
BENCH.option("--peer", type=Path, metavar="FOLDER", help="with ONNX Runtime Web, of node")
BENCH.option("--int8", action="store_true", help="networks of node")


@BENCH.part()
def page(sheet: Sheet) -> None:
    with tempfile.TemporaryDirectory() as folder, server(Path(folder) / "site") as serving:
        files = build(Path(folder) / "site")
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{serving.server_port}/"
        with page_of(address, Path(folder), (420, 900)) as opened:
            times = []
            for _ in range(10):
                opened.open(address)
                times.append(float(opened.wait_for("document.body.dataset.ready")))
        serving.shutdown()
        size = sum(file.stat().st_size for file in files if file.suffix in (".wasm", ".js"))
    print(f"first {times[0]:.1f} ms")
    sheet.figure("wasm_page_ms", min(times), ".1f")
    sheet.figure("wasm_page_kib", size / 1024, ".0f")


@BENCH.part(zoo.NETWORKS, ("mobilenet_v1",), extra=True)
def node(sheet: Sheet) -> None:
    node = shutil.which("node")
    if sheet.peer is None or node is None:
        raise RequestError("Node.js and --peer must be there")
    for name in sheet.cases:
        with tempfile.TemporaryDirectory() as folder:
            model = zoo.build(name, int8=sheet.int8)
            onnx.save(model, f"{folder}/model.onnx")
            made = export(compile(model, "cpu"), folder, "network", machine="wasm32")
            script = Path(folder) / "run.mjs"
            script.write_text(NODE.format(peer=sheet.peer.resolve(), name="network",
                                          model=f"{folder}/model.onnx", rounds=ROUNDS))
            said = subprocess.run([node, str(script)], capture_output=True, text=True, check=True)
            found = json.loads(said.stdout.splitlines()[-1])
            size = sum(file.stat().st_size for file in made.files if file.suffix == ".wasm")
        sheet.figure(f"wasm_{name}", found["ours"] / found["theirs"], ".3f")
        print(f"  {found['ours']:.1f} ms, {found['theirs']:.1f} ms; outputs differ by "
              f"{found['off']:.1e}; code {size / 1024:.0f} KiB", flush=True)
