"""Files of pictures.

Equal figures give equal bytes: nothing in a file depends on the time. Texts in SVG are outlines, so
every reader shows them alike; those in PDF are TrueType, which publishers take.
"""

import argparse
import io
import shlex
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from compiler.errors import RequestError
from compiler.files import FileError, write_bytes
from lockstep.options.results import PICTURES
from lockstep.options.paths import PictureFolder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE: Any = {
    "font.size": 8, "axes.titlesize": 8, "axes.spines.top": False, "axes.spines.right": False,
    "axes.linewidth": .6, "legend.frameon": False, "legend.fontsize": 7, "pdf.fonttype": 42,
    "svg.fonttype": "path", "svg.hashsalt": "lockstep", "figure.constrained_layout.use": True,
    "text.parse_math": False}       # names of layers literally, dollars included

SIGNS = str.maketrans({"*": "-times-", "/": "-per-", " ": ""})
"""Stand-ins in names of files for signs of formulas, which objectives may be."""

Drawing = Callable[["Figure"], None]
"""Draws one picture into an empty figure, and sets its size in inches."""


def require_matplotlib(args: argparse.Namespace) -> None:
    """Raises RequestError where pictures are asked for and matplotlib is not installed."""
    for kind in PICTURES:
        if getattr(args, kind) and find_spec("matplotlib") is None:
            raise RequestError(f"--{kind} needs matplotlib, which is not installed: "
                               f"pip install 'lockstep-hw[pictures]'")


def put_pictures(args: argparse.Namespace, drawings: Mapping[str, Drawing],
                 provenance: Mapping[str, Any]) -> None:
    """Writes each drawing, by its name, into the folders of the options."""
    for kind in PICTURES:
        folder: PictureFolder | None = getattr(args, kind)
        if folder:
            _make(folder)
            for name, drawing in drawings.items():
                write_bytes(folder / f"{name.translate(SIGNS)}.{kind}",
                            drawn(drawing, kind, provenance))


def _make(folder: PictureFolder) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise FileError(folder, error) from None


def drawn(drawing: Drawing, kind: str, provenance: Mapping[str, Any]) -> bytes:
    """The file of a drawing; it says which command it comes from."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    command = shlex.join(["lockstep", *provenance["command"]])
    told = ({"Date": None, "Description": command} if kind == "svg"
            else {"CreationDate": None, "Subject": command})
    file = io.BytesIO()
    with rc_context(STYLE):
        figure = Figure()
        drawing(figure)
        figure.savefig(file, format=kind, metadata=told)
    return file.getvalue()
