"""Networks for other languages than C, each a text or two over the same two functions."""

from collections.abc import Mapping

from .cpp import cpp
from .interface import CInterface
from .java import java, java_class, jni
from .javascript import node, typescript
from .python import python
from .rust import rust

LANGUAGES = ("cpp", "python", "java", "rust", "node")
OVER_A_SHARED_LIBRARY = {"python": "Python", "node": "Node.js"}
"""Those that load the library when they run, as people write them."""


def bindings(of: CInterface, language: str) -> Mapping[str, str]:
    """The texts for one of `LANGUAGES`, by the names of their files. Raises ExportError for arrays
    of a type that the language lacks.
    """
    match language:
        case "cpp":
            return {f"{of.name}.hpp": cpp(of)}
        case "python":
            return {f"{of.name}.py": python(of)}
        case "java":
            return {f"{java_class(of)}.java": java(of), f"{of.name}_jni.c": jni(of)}
        case "node":
            return {f"{of.name}.mjs": node(of), f"{of.name}.d.mts": typescript(of, native=True)}
    return {f"{of.name}.rs": rust(of)}
