"""docs/tour.md shows what `lockstep show` prints; ``pytest --update-golden`` writes it anew."""

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from accel.mapping.texts import STAGES
from lockstep.cli import make_parser
from lockstep.commands.show import recorded, shown
from lockstep.options.paths import find_networks

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tour.md"
BLOCK = re.compile(r"(?<=```sh\n)(lockstep show .+)\n```\n\n```text\n((?:(?!```).*\n)*)```")


@lru_cache
def stages(model: str, target: str) -> Mapping[str, Any]:
    args = make_parser().parse_args(["show", "import", model, "--target", target])
    find_networks(vars(args))
    return recorded(args)


def printed(command: str) -> str:
    """What a command prints; ``| head -N`` cuts it."""
    command, _, most = command.partition(" | head -")
    args = make_parser().parse_args(command.split()[1:])
    text = shown(stages(str(args.model), args.target), args.stage, args.layer)
    return "".join(text.splitlines(keepends=True)[:int(most) if most else None])


def test_the_page_shows_what_the_command_prints(request, monkeypatch) -> None:
    monkeypatch.chdir(ROOT)
    page = PAGE.read_text()
    fresh = BLOCK.sub(lambda found: f"{found[1]}\n```\n\n```text\n{printed(found[1])}```", page)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(fresh)
    assert fresh == PAGE.read_text(), "if rightly so, pytest --update-golden"
    assert len(BLOCK.findall(page)) == page.count("\nlockstep show ") > 6


def test_every_stage_of_the_accelerator_is_on_the_page() -> None:
    shown_there = [found[0].split()[2] for found in BLOCK.findall(PAGE.read_text())]
    assert [*dict.fromkeys(stage for stage in shown_there if stage in STAGES)] == [*STAGES]
