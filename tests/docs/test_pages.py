"""Pages name what there is, and their links lead somewhere."""

import ast
import re
from pathlib import Path

import pytest

from accel.machine.timing import TIMING
from bench.networks.pytorch import operators_text as operators

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md")),
         *sorted((ROOT / "examples").rglob("*.md"))]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"


def test_links_of_pages_lead_somewhere():
    for page in (*PAGES, CONTRIBUTING):
        for target in re.findall(r"`((?:accel|compiler|runtime|lockstep|tests|bench|examples|docs)"
                                 r"/[\w./-]+)`", page.read_text()):
            assert (ROOT / target).exists(), f"{page.name} names {target}"


def test_contributing_names_tests_that_exist():
    text = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", CONTRIBUTING.read_text())
    assert named and not set(named) - set(re.findall(r"def (test_\w+)\(", text))


LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """Those that GitHub gives the headings: lower case, no punctuation, dashes for spaces."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


def leads_nowhere(page: Path) -> list[str]:
    """The links of a page to files or sections that do not exist."""
    gone = []
    for link in LINK.findall(page.read_text()):
        place, _, section = link.partition("#")
        target = page.parent / place if place else page
        if "://" not in link and not (target.exists()
                                      and (not section or section in anchors(target))):
            gone.append(link)
    return gone


@pytest.mark.parametrize("page", [*PAGES, CONTRIBUTING],
                         ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_to_pages_and_sections_lead_somewhere(page):
    assert leads_nowhere(page) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A title, `quoted`\n```\n# code\n```\n[a](page.md#a-title-quoted) [b](#code) "
                    "[c](none.md) [d](https://example.org/x#y) [e](page.md)")
    assert leads_nowhere(page) == ["#code", "none.md"]


@pytest.mark.parametrize("page", [*PAGES, CONTRIBUTING, ROOT / "CHANGELOG.md",
                                  ROOT / "findings" / "README.md"],
                         ids=lambda page: page.relative_to(ROOT).as_posix())
def test_lines_have_at_most_120_columns(page):
    assert [line for line in page.read_text().splitlines() if len(line) > 120] == []


def test_the_readme_is_short():
    lines = README.read_text().splitlines()
    assert len(lines) <= 100 and max(map(len, lines)) <= 110


def test_every_page_is_in_the_side_bar_of_the_site():
    text = (ROOT / "docs" / "site" / "conf.py").read_text()
    (groups,) = re.findall(r"^GROUPS = (\{.*?^\})", text, re.DOTALL | re.MULTILINE)
    shown = [page for pages in ast.literal_eval(groups).values() for page in pages]
    assert sorted(shown) == sorted(page.stem for page in (ROOT / "docs").glob("*.md"))


def test_every_page_is_in_the_index():
    docs = ROOT / "docs"
    linked = {link.partition("#")[0] for link in LINK.findall((docs / "README.md").read_text())}
    assert {page.name for page in docs.glob("*.md")} - {"README.md"} <= linked


def test_the_page_about_torch_has_the_operators_that_are_imported():
    page = (ROOT / "docs" / "torch.md").read_text()
    assert " ".join(operators().split()) in " ".join(page.split())


def test_times_of_the_machine_page_are_those_of_the_hardware():
    page = (ROOT / "docs" / "machine.md").read_text()
    table = "\n".join(f"| `{name}` | {number} | {meaning} |"
                      for name, number, meaning in TIMING.rows())
    assert f"\n{table}\n\n" in page, f"The table of docs/machine.md must be\n{table}"
