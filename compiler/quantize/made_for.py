"""The metadata of a quantized file: which version made it, and for which machine.

Keys of ``metadata_props`` begin with ``lockstep.``: ``version``; for a machine also ``machine``,
its name, and ``machine_fingerprint``, the hash of what the quantizer takes from it
(`accel.mapping.quantizing.machine_fingerprint`), and ``unused.NAME``: why no layer has the meaning
of an instruction.
"""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from compiler.frontend.onnx.nodes.maps import OWN

PREFIX = "lockstep."
PACKAGE = "lockstep-hw"
UNNAMED = "a machine that the file does not name"


def marked(model: onnx.ModelProto, told: Mapping[str, str]) -> onnx.ModelProto:
    """The model itself, with these metadata, by their names without the prefix, and the version."""
    onnx.helper.set_model_props(model, {
        f"{PREFIX}{name}": text for name, text in {"version": version(PACKAGE), **told}.items()})
    return model


def made_for(path: Path) -> dict[str, str]:
    """Reads the metadata of an ONNX file, without the prefix; other files have none.

    A file without metadata that holds the meaning of a machine's own instruction was made for a
    machine, too, which is `UNNAMED`.
    """
    if path.suffix != ".onnx" or not path.is_file():
        return {}
    try:
        model = onnx.load(path, format="protobuf", load_external_data=False)
    except (DecodeError, OSError):      # the importer says what is wrong with a file
        return {}
    found = {one.key.removeprefix(PREFIX): one.value for one in model.metadata_props
             if one.key.startswith(PREFIX)}
    if not found and any(one.domain == OWN for one in model.opset_import):
        return {"machine": UNNAMED, "machine_fingerprint": "", "version": ""}
    return found


def made_for_note(name: str, found: Mapping[str, str]) -> str:
    """A sentence for a network on another machine than it was made for."""
    by = f" by Lockstep {found['version']}" if found["version"] else ""
    return (f"{name} was quantized{by} for {found['machine']}: what another machine lacks of it is "
            f"emulated, and the network in float with --calibration is quantized for each machine")
