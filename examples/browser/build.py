"""A page that recognizes digits as they are drawn: the network runs in the browser.

``python -m examples.browser.build -o DIR`` writes the page, the network as WebAssembly, and the
module of JavaScript between them; ``--serve PORT`` then shows it on this computer. Any server of
files will do: nothing is computed there. Needs ``wasm-ld`` (Debian's package ``lld``).
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from compiler.errors import Error
from compiler.files import write_bytes
from runtime import compile
from runtime.exporting.export import export

HERE = Path(__file__).parent
MODEL = HERE.parent / "digits" / "digits-int8.onnx"
PAGE = ("index.html", "page.js", "pixels.js")


def build(folder: Path) -> list[Path]:
    """Writes the page and its network into a folder; returns the files."""
    made = export(compile(MODEL, "cpu"), folder, "digits", machine="wasm32")
    for name in PAGE:
        write_bytes(folder / name, (HERE / name).read_bytes())
    return [*made.files, *(folder / name for name in PAGE)]


def server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """Serves the folder to this computer, at a free port unless one is given."""
    return ThreadingHTTPServer(("127.0.0.1", port),
                               partial(_Quiet, directory=str(folder)))


class _Quiet(SimpleHTTPRequestHandler):
    def guess_type(self, path) -> str:
        """Browsers take modules and WebAssembly of these types alone."""
        types = {".wasm": "application/wasm", ".js": "text/javascript", ".mjs": "text/javascript"}
        return types.get(Path(path).suffix) or super().guess_type(path)

    def log_message(self, format: str, *args: object) -> None:
        pass


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="examples.browser.build",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--serve", type=int, metavar="PORT")
    args = parser.parse_args(argv)
    try:
        for file in build(args.output):
            print(f"{file}: {file.stat().st_size:,} bytes")
    except Error as error:
        print(error, file=sys.stderr)
        return 2
    if args.serve is not None:
        with server(args.output, args.serve) as serving:
            print(f"http://127.0.0.1:{serving.server_port}/ (Ctrl-C ends it)")
            try:
                serving.serve_forever()
            except KeyboardInterrupt:
                pass
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
