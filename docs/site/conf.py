"""The site: the pages as they are, and a reference from docstrings (`make docs`)."""

import sys
from pathlib import Path

import lockstep

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

project = "Lockstep"
copyright = "the authors of Lockstep, Apache-2.0"   # noqa: A001 - Sphinx asks for this name
release = lockstep.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "docs/site/api.md",
                    "examples/digits/README.md", "findings/README.md"]
exclude_patterns = [".venv", "build", ".git", "tests", "**/__pycache__"]
html_theme = "furo"
html_title = f"Lockstep {release}"

myst_heading_anchors = 4            # as GitHub makes them
default_role = "code"               # `name` in a docstring is code
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"

GROUPS = {
    "Begin": ["tutorial", "tour", "commands", "python", "trust", "README"],
    "The machine": ["machine", "isa", "geometry", "structure", "memory", "channels", "dataflow",
                    "instruction", "argmax", "hardswish", "int16", "bfloat16", "fp8", "normalize",
                    "depthwise", "sparse", "packed_weights", "groups", "rtl",
                    "prove", "asic"],
    "Networks": ["networks", "onnx", "types", "torch", "frontends", "quantize", "spellings",
                 "operators", "decoders", "training", "real", "values"],
    "Where the time goes": ["traces", "partition", "bounds", "energy", "estimates", "explore",
                            "whole", "simulators", "peers", "published"],
    "Back ends": ["schedules", "cpu", "c", "gpu", "export", "languages", "driver", "fpga",
                  "search"],
    "Lockstep itself": ["design", "testing"],
}
"""The pages of docs/ as the side bar has them."""


def setup(app) -> None:
    app.connect("source-read", add_contents)
    app.connect("build-finished", begin_at_readme)


def add_contents(app, name: str, source: list[str]) -> None:
    """Adds the side bar to the first page, which has none in the repository."""
    if name != root_doc:
        return
    groups = {title: [f"/docs/{page}" for page in pages] for title, pages in GROUPS.items()}
    groups["Lockstep itself"] += ["/docs/site/api", "/CONTRIBUTING", "/CHANGELOG",
                                  "/examples/digits/README", "/findings/README"]
    for title, pages in groups.items():
        source[0] += "\n```{toctree}\n:hidden:\n:caption: " + title + "\n\n"
        source[0] += "\n".join(pages) + "\n```\n"


def begin_at_readme(app, error) -> None:
    if error is None:
        (Path(app.outdir) / "index.html").write_text(
            '<meta http-equiv="refresh" content="0; url=README.html">\n')
