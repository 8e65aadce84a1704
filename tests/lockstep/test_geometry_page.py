"""docs/geometry.md is what the declarations of the fields say."""

from dataclasses import fields

import pytest

from accel.machine.config import AccelConfig, ConfigError, preset
from accel.machine.dram import Dram
from accel.machine.limits import FieldLimits, limits_of
from lockstep.manual.geometry import SECTIONS, geometry_page


def test_the_page(golden) -> None:
    golden("../../docs/geometry.md", geometry_page())


def test_every_field_is_in_one_section() -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(
        field.name for field in fields(AccelConfig))


def test_every_field_says_what_it_means_and_costs() -> None:
    for field in (*fields(AccelConfig), *fields(Dram)):
        limits = limits_of(field)
        assert limits.meaning and limits.costs, field.name


def test_what_the_page_says_is_what_the_constructor_holds() -> None:
    """Twice the most is refused in the words of the page."""
    tiny = preset("tiny-1x4x4").values()
    for field in fields(AccelConfig):
        limits = limits_of(field)
        if field.type is int and limits.most:
            with pytest.raises(ConfigError, match=f"^{field.name} must be {limits.range}, not "):
                AccelConfig(**{**tiny, field.name: 2 * limits.most})


@pytest.mark.parametrize(("limits", "value", "rule"), [
    ({"least": 2, "most": 64}, 1, "from 2 to 64"), ({"most": 16}, 17, "from 1 to 16"),
    ({"is_power_of_two": True, "most": 16}, 3, "a power of two"), ({}, 1 << 40, ""),
    ({"least": 5}, 4, "at least 5"), ({"least": 2, "most": 64}, 64, ""),
])
def test_the_first_rule_that_is_broken(limits: dict, value: int, rule: str) -> None:
    assert FieldLimits("", "", "", **limits).broken(value) == rule
