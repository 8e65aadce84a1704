"""Names that nothing uses yet."""

from collections.abc import Iterable


class Names:
    """Hands out unused names; a name that is taken never becomes free."""

    def __init__(self, taken: Iterable[str]):
        self._taken = set(taken)

    def fresh(self, stem: str) -> str:
        """The stem if it is free, else the stem and a number."""
        name, count = stem, 1
        while name in self._taken:
            name, count = f"{stem}_{count}", count + 1
        self._taken.add(name)
        return name
