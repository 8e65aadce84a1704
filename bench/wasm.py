"""Networks in WebAssembly: in a page, and in Node.js beside ONNX Runtime Web.

    python -m bench.wasm page                           the page of examples/browser, in Chromium
    python -m bench.wasm node [NAME...] --peer FOLDER   networks of `lockstep.testing`, one thread

`page`: milliseconds from the start of loading to the first answer (`wasm_page_ms`, the least of
ten), and the bytes of module and weights (`wasm_page_kib`).

`node`: each network runs in turns with ONNX Runtime Web's build for one thread, which
``npm install onnxruntime-web`` puts into FOLDER/node_modules; `wasm_NAME` is our least time over
its. By default MobileNet-v1.
"""

import argparse
import json
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

import onnx

from lockstep.testing import zoo
from examples.browser.build import build, server
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


def page(args: argparse.Namespace) -> None:
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
    print(f"wasm_page_ms {min(times):.1f} (first {times[0]:.1f})")
    print(f"wasm_page_kib {size / 1024:.0f}")


def node(args: argparse.Namespace) -> None:
    for name in args.names or ["mobilenet_v1"]:
        with tempfile.TemporaryDirectory() as folder:
            model = zoo.build(name, int8=args.int8)
            onnx.save(model, f"{folder}/model.onnx")
            made = export(compile(model, "cpu"), folder, "network", machine="wasm32")
            script = Path(folder) / "run.mjs"
            script.write_text(NODE.format(peer=args.peer.resolve(), name="network",
                                          model=f"{folder}/model.onnx", rounds=ROUNDS))
            node = shutil.which("node")
            assert node is not None, "Node.js must be installed"
            said = subprocess.run([node, str(script)], capture_output=True, text=True, check=True)
            found = json.loads(said.stdout.splitlines()[-1])
            size = sum(file.stat().st_size for file in made.files if file.suffix == ".wasm")
        print(f"wasm_{name} {found['ours'] / found['theirs']:.3f} ({found['ours']:.1f} ms, "
              f"{found['theirs']:.1f} ms; outputs differ by {found['off']:.1e}; code "
              f"{size / 1024:.0f} KiB)")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(required=True)
    kinds.add_parser("page").set_defaults(measure=page)
    second = kinds.add_parser("node")
    second.add_argument("names", nargs="*", metavar="NAME")
    second.add_argument("--peer", type=Path, required=True, metavar="FOLDER")
    second.add_argument("--int8", action="store_true")
    second.set_defaults(measure=node)
    args = parser.parse_args(argv)
    args.measure(args)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
