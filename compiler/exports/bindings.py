"""Networks for other languages than C, each a text or two over the same two functions."""

from collections.abc import Mapping

from .cpp import cpp
from .interface import CInterface
from .java import java, java_class, jni
from .python import python
from .rust import rust

__all__ = ["LANGUAGES", "bindings"]

LANGUAGES = ("cpp", "python", "java", "rust")


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
    return {f"{of.name}.rs": rust(of)}
