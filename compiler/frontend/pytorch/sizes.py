"""Symbolic sizes of an exported program, bound to numbers."""

from collections.abc import Mapping
from typing import Any

from compiler.frontend.building.refusal import ImportRefused
from compiler.frontend.building.values import NodeRefused


class Sizes:
    """The value of each of a program's symbols, from `shapes` by name: the first INPUT.AXIS where
    the symbol stands alone, any other such place, or the symbol itself as torch calls it.
    """

    def __init__(self, program: Any, shapes: Mapping[str, int], place: str):
        self.place = place
        self._values: dict[Any, int] = {}
        places = _symbols(program)
        known = {name: symbol for symbol, names in places.items() for name in (*names, str(symbol))}
        for name, extent in shapes.items():
            self._bind(name, extent, known, places)
        unbound = {symbol: names[0] if names else str(symbol) for symbol, names in places.items()
                   if symbol not in self._values}
        if unbound:
            listed = ", ".join(f"{name!r} (torch's {symbol})" for symbol, name in unbound.items())
            example = " ".join(f"--shape {name}=1" for name in unbound.values())
            raise ImportRefused(f"{place}: no value for dimension {listed}; bind each with "
                                f"--shape NAME=N, for example {example}")
        self._check_ranges(program)

    def _bind(self, name: str, extent: int, known: Mapping[str, Any],
              places: Mapping[Any, list[str]]) -> None:
        if name not in known:
            listed = ", ".join(names[0] if names else str(symbol)
                               for symbol, names in places.items()) or "none"
            raise ImportRefused(f"{self.place}: --shape {name}={extent} names no dimension of the "
                                f"inputs; the symbolic ones are: {listed}")
        if type(extent) is not int or extent < 1:
            raise ImportRefused(f"{self.place}: --shape {name}=N must have an integer N of at "
                                f"least 1, not {extent!r}")
        before = self._values.setdefault(known[name], extent)
        if before != extent:
            raise ImportRefused(f"{self.place}: --shape {name}={extent} contradicts {before}, "
                                "which another name of the same dimension has")

    def _check_ranges(self, program: Any) -> None:
        for symbol, limits in program.range_constraints.items():
            value = self._values.get(symbol)
            if value is not None and not limits.lower <= value <= limits.upper:
                raise ImportRefused(f"{self.place}: dimension {symbol} must be {limits.lower} to "
                                    f"{limits.upper}, as it was exported, not {value}")

    def of(self, size: Any) -> int:
        """The extent that a number, or an expression of symbols, stands for."""
        if isinstance(size, int):
            return size
        if not hasattr(size, "node"):
            raise NodeRefused(f"it must be a tensor or an integer, not {type(size).__name__}")
        extent = size.node.expr.xreplace(self._values)
        if getattr(extent, "free_symbols", None):
            raise NodeRefused(f"size {size} depends on computed elements")
        return int(extent)


def open_dimensions(program: Any) -> list[str]:
    """The first INPUT.AXIS of every symbol where it stands alone."""
    return [names[0] for names in _symbols(program).values() if names and "." in names[0]]


def _symbols(program: Any) -> dict[Any, list[str]]:
    """The symbols of the inputs' sizes, and the places where each stands alone."""
    symbols: dict[Any, list[str]] = {}
    for node in program.graph.nodes:
        value: Any = node.meta.get("val") if node.op == "placeholder" else None
        sizes: dict[str, Any] = {"": value} if hasattr(value, "node") else {
            f".{axis}": size for axis, size in enumerate(getattr(value, "shape", ()))}
        for axis, size in sizes.items():
            if hasattr(size, "node"):
                for symbol in sorted(size.node.expr.free_symbols, key=str):
                    symbols.setdefault(symbol, [])
                if size.node.expr.is_Symbol:
                    symbols[size.node.expr].append(f"{node.name}{axis}")
    return symbols
