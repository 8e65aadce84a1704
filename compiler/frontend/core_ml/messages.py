"""The messages of Core ML's files, which coremltools brings (extra `coreml`).

The package itself imports whatever it can convert from, which takes seconds, and warns that nothing
runs here. Its messages need protobuf alone, so they are imported without it.
"""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

PLACE = "lockstep_core_ml_messages"


def messages(name: str) -> ModuleType:
    """The module of messages, ``Model`` or ``MIL``. Raises ImportError where there is none."""
    if PLACE not in sys.modules:
        found = importlib.util.find_spec("coremltools")
        if found is None or found.origin is None:
            raise ImportError("coremltools is not installed")
        package = ModuleType(PLACE, "Messages of Core ML's files.")
        package.__path__ = [str(Path(found.origin).parent / "proto")]
        sys.modules[PLACE] = package
    return importlib.import_module(f"{PLACE}.{name}_pb2")
