"""The functions that call a segment's kernels: short ones, however many kernels there are."""

import re

import pytest

from compiler.cpu_gpu_backends.cpu.calls import (MOST_CALLS, MOST_POINTERS, ArrayPlace, CallFrame,
                                                 calling_functions)

FRAME = CallFrame(("%block", "%table"), 0, lambda slot: iter([f"  %a{slot} = load {slot}"]))


def functions(names: list[str], calls: list[list[ArrayPlace]]) -> dict[str, list[str]]:
    """The lines of each function, by its name."""
    text = "\n".join(calling_functions("all", FRAME, names, calls))
    return {name: body.splitlines() for name, body in re.findall(
        r"define [a-z ]*i32 @(\S+)\(ptr %block, ptr %table\)[^{]*{\n(.*?)^}", text,
        re.MULTILINE | re.DOTALL)}


def called(lines: list[str]) -> list[str]:
    return [found[1] for line in lines if (found := re.search(r"call i32 @(\S+)\(", line))]


def in_order(made: dict[str, list[str]], name: str) -> list[str]:
    """The kernels that a function calls, by itself or by others."""
    return [kernel for part in called(made[name])
            for kernel in (in_order(made, part) if part in made else [part])]


@pytest.mark.parametrize("count", [1, MOST_CALLS, MOST_CALLS + 1, MOST_CALLS ** 2 + 1])
@pytest.mark.parametrize("pointers", [0, 3, 60, 2 * MOST_POINTERS])
def test_no_function_is_long(count: int, pointers: int) -> None:
    names = [f"k{number}" for number in range(count)]
    made = functions(names, [[ArrayPlace(number % 3)] * pointers for number in range(count)])
    assert in_order(made, "all") == names and list(made)[-1] == "all"
    for lines in made.values():
        calls = called(lines)
        passed = sum(line.count("ptr %a") for line in lines)
        assert len(calls) <= MOST_CALLS and (passed <= MOST_POINTERS or len(calls) == 1)


def test_a_function_loads_what_its_own_calls_need() -> None:
    names = [f"k{number}" for number in range(2 * MOST_CALLS)]
    made = functions(names, [[ArrayPlace(number // MOST_CALLS), ArrayPlace(None, 64)]
                             for number in range(len(names))])
    assert [[line for line in made[name] if "load" in line] for name in made] == [
        ["  %a0 = load 0"], ["  %a1 = load 1"], []]
    assert "  %v0_1 = getelementptr i8, ptr %block, i64 64" in made["all.1"]
    assert made["all"][0] == "  %s0 = call i32 @all.0(ptr %block, ptr %table)"
