"""Pages of HTML from the templates of this package, in which every text is escaped by default.

All pages have the frame `report/frame.html`. What is markup already is `Markup`, of Jinja2.
"""

from functools import cache
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parents[1]


def rendered(template: str, **values: Any) -> str:
    """A template, such as ``report/page.html``, with these values; one that lacks is an error."""
    return _environment().get_template(template).render(values)


def text_of(*names: str) -> str:
    """The texts of files of this package, one after the other."""
    return "".join((_HERE / name).read_text("utf-8") for name in names)


@cache
def _environment() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined,
                       trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
