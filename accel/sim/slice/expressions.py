"""The C++ of what a node computes: numbers of 64 bits, a node in the low ones, the others 0."""

from collections.abc import Callable, Iterator, Sequence

from accel.sim.slice.graph import SliceNode, Operand, width_of

Name = Callable[[SliceNode], str]
"""The C++ name of a node that an expression reads."""


def number(value: int) -> str:
    return f"{value:#x}ull" if value > 9 else f"{value}ull"


def mask(width: int) -> str:
    """Text that keeps so many low bits."""
    return f" & {number((1 << width) - 1)}" if width < 64 else ""


def text_of(operand: Operand, name: Name) -> str:
    """An operand: its runs side by side."""
    parts = [text for text in _runs(operand, name) if text]
    return "0ull" if not parts else parts[0] if len(parts) == 1 else f"({' | '.join(parts)})"


def _runs(operand: Operand, name: Name) -> Iterator[str]:
    at = 0
    for node, low, count in operand:
        if node is None:
            yield number(low << at) if low else ""
        else:
            text = name(node)
            if low:
                text = f"({text} >> {low})"
            if low + count < node.width:
                text = f"({text}{mask(count)})"
            yield f"((uint64_t){text} << {at})" if at else f"(uint64_t){text}"
        at += count


def signed(operand: Operand, name: Name) -> str:
    """An operand as a number with a sign."""
    shift = 64 - width_of(operand)
    text = f"(int64_t)({text_of(operand, name)} << {shift})" if shift else \
        f"(int64_t){text_of(operand, name)}"
    return f"({text} >> {shift})" if shift else text


def expression(node: SliceNode, name: Name) -> str:
    """The value of a combinational node that is no ``assign``."""
    operands = [text_of(operand, name) for operand in node.operands]
    match node.kind:
        case "read":
            memory, piece = node.info
            return f"m{memory}_{piece}[{operands[0]}]"
        case "matches":
            return _matches(node, operands[0])
        case "priority":
            enable, *before, own = operands
            return f"{enable} & {own}" + (f" & (({' | '.join(before)}) ^ 1)" if before else "")
        case "shift":
            return _shifted(">>", operands) + mask(node.width)
        case "select":
            text = "0ull"
            for place, value in reversed([*enumerate(operands[1:])]):
                text = f"({operands[0]} == {place} ? {value} : {text})"
            return text
    return _operator(node, operands, name)


def _shifted(symbol: str, operands: Sequence[str]) -> str:
    value, offset = operands
    return f"({offset} < 64 ? {value} {symbol} {offset} : 0ull)"


def _matches(node: SliceNode, value: str) -> str:
    tests = []
    for pattern in node.info:
        wanted = int("0" + pattern.replace("-", "0"), 2)
        looked = int("0" + "".join("01"[bit != "-"] for bit in pattern), 2)
        tests.append(f"(({value} & {number(looked)}) == {number(wanted)})" if looked else "1")
    return f"(uint64_t)({' | '.join(tests) or '0'})"


def _operator(node: SliceNode, operands: Sequence[str], name: Name) -> str:
    symbol = node.kind
    match symbol:
        case "~": return f"~{operands[0]}{mask(node.width)}"
        case "&" | "|" | "^": return f"{operands[0]} {symbol} {operands[1]}"
        case "m": return f"{operands[0]} ? {operands[1]} : {operands[2]}"
        case "-" if len(operands) == 1: return f"-{operands[0]}{mask(node.width)}"
        case "+" | "-" | "*":
            return f"({operands[0]} {symbol} {operands[1]}){mask(node.width)}"
        case "<<": return _shifted("<<", operands) + mask(node.width)
        case "u>>": return _shifted(">>", operands)
        case "s>>":
            return (f"(uint64_t)({signed(node.operands[0], name)} >> "
                    f"({operands[1]} < 63 ? {operands[1]} : 63)){mask(node.width)}")
        case "==" | "!=":
            tests = [f"({a} {symbol} {b})" for a, b in zip(operands[::2], operands[1::2])]
            return f"(uint64_t)({(' & ' if symbol == '==' else ' | ').join(tests) or '1'})" \
                if tests or symbol == "==" else "0ull"
        case "b" | "r|": return f"(uint64_t)(({' | '.join(operands) or '0'}) != 0)"
        case "r&":
            tests = [f"({text} == {number((1 << width_of(operand)) - 1)})"
                     for text, operand in zip(operands, node.operands)]
            return f"(uint64_t)({' & '.join(tests) or '1'})"
        case "r^": return f"(uint64_t)__builtin_parityll({' ^ '.join(operands) or '0'})"
    return _compared(node, operands, name)


def _compared(node: SliceNode, operands: Sequence[str], name: Name) -> str:
    """Comparisons, of numbers without and with a sign."""
    sign, symbol = node.kind[0], node.kind[1:]
    a, b = (signed(operand, name) for operand in node.operands) if sign == "s" else operands
    return f"(uint64_t)({a} {symbol} {b})"
