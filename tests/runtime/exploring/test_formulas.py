"""Formulas of figures: values, intervals, units, refusals."""

import numpy as np
import pytest

from runtime.exploring.formulas import ObjectiveError, ObjectiveValue, formula_of

FIGURES = {"ms": ObjectiveValue(2, 1, 4), "energy": ObjectiveValue(10, 10, 10),
           "luts": ObjectiveValue(5, 4, 6, True), "off": ObjectiveValue(0, -1, 2)}
UNITS = {"ms": "ms", "energy": "uJ", "luts": "LUTs", "off": ""}


@pytest.mark.parametrize(("text", "expected", "unit"), [
    ("energy*ms", (20, 10, 40), "uJ*ms"),
    ("energy / ms", (5, 2.5, 10), "uJ/ms"),
    ("energy * ms**2", (40, 10, 160), "uJ*ms**2"),
    ("1 / ms", (0.5, 0.25, 1), "1/ms"),
    ("-ms", (-2, -4, -1), "ms"),
    ("ms - 2*ms", (-2, -7, 2), "ms"),
    ("ms + energy", (12, 11, 14), ""),
    ("(ms + ms) / ms", (2, 0.5, 8), ""),
    ("off**2 * ms", (0, 0, 16), "ms"),
    ("2**ms", (4, 2, 16), "")])
def test_values_intervals_and_units(text: str, expected, unit: str) -> None:
    formula = formula_of(text)
    np.testing.assert_allclose(formula.of(FIGURES.__getitem__)[:3], expected)
    assert formula.unit(UNITS) == unit


def test_an_interval_holds_every_value_of_its_figures(rng) -> None:
    formula = formula_of("(ms - off)**2 * luts / (energy + ms) - off")
    found = formula.of(FIGURES.__getitem__)
    for _ in range(200):
        drawn = {name: ObjectiveValue(value, value, value) for name, one in FIGURES.items()
                 for value in [rng.uniform(one.low, one.high)]}
        assert found.low <= formula.of(drawn.__getitem__).value <= found.high
    assert found.extrapolated and {*formula.names} == {*FIGURES}


@pytest.mark.parametrize("text", [
    "", "ms ms", "abs(ms)", "ms.real", "__import__('os')", "ms if ms else 1", "[ms]", "'a'*9",
    "ms < 3", "True*ms", "1j*ms", "(" * 150 + "ms" + ")" * 150, "ms+" * 90 + "ms", "lambda: 1"])
def test_what_is_no_formula(text: str) -> None:
    with pytest.raises(ObjectiveError, match=r"^A formula must be names, numbers, \+ - \* / \*\* "
                                             r"and parentheses, at most 200 characters, not ['\"]"):
        formula_of(text)


@pytest.mark.parametrize("text", ["ms / off", "9**9**9**ms", "(off - 3)**0.5", "off**-1",
                                  "1e999 - 1e999 * ms"])
def test_a_formula_without_a_value(text: str) -> None:
    with pytest.raises(ObjectiveError, match="must have a value for every machine, which it does "
                                             "not$"):
        formula_of(text).of(FIGURES.__getitem__)
