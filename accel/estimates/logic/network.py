"""Logic of single bits: inputs, conjunctions, exclusive ors and multiplexers, each there once.

A literal is twice the number of a node, plus one where it is inverted. Node 0 is the constant, so
that 0 is false and 1 is true.
"""

from collections.abc import Callable, Iterable

FALSE, TRUE = 0, 1


class BitNetwork:
    """A network that grows by its methods, which give the literal of a result. What is constant, or
    computed already, makes no node.

    Attributes
    ----------
    operands : the literals that each node reads, those of an input none; of a multiplexer its
        condition, and what it gives when that is true, and when not.
    owners : what `owner` was when a node was made.
    owner : the name of the part that makes nodes now.
    """

    def __init__(self) -> None:
        self.operands: list[tuple[int, ...]] = [()]
        self.owners, self.owner = [""], ""
        self._known: dict[tuple[str, *tuple[int, ...]], int] = {}
        self._multiplexers: set[int] = set()

    def leaf(self) -> int:
        """An input."""
        return self._made(())

    def conjunction(self, a: int, b: int) -> int:
        """1 where both are."""
        if a > b:
            a, b = b, a
        if a == FALSE or a ^ 1 == b:
            return FALSE
        if a in (TRUE, b):
            return b
        return self._node("and", a, b)

    def disjunction(self, a: int, b: int) -> int:
        """1 where one of both is, or both are."""
        return self.conjunction(a ^ 1, b ^ 1) ^ 1

    def difference(self, a: int, b: int) -> int:
        """1 where one of both is."""
        inverted, a, b = (a ^ b) & 1, a & ~1, b & ~1
        if a > b:
            a, b = b, a
        if a == b:
            return inverted
        return (self._node("xor", a, b) if a else b) ^ inverted

    def choice(self, condition: int, then: int, other: int) -> int:
        """`then` where the condition is 1, else `other`."""
        if condition & 1:
            condition, then, other = condition ^ 1, other, then
        if condition == FALSE:
            return other
        then = {condition: TRUE, condition ^ 1: FALSE}.get(then, then)
        other = {condition: FALSE, condition ^ 1: TRUE}.get(other, other)
        if then == other:
            return then
        if then in (FALSE, TRUE):
            return self.disjunction(condition, other) if then else self.conjunction(
                condition ^ 1, other)
        if other in (FALSE, TRUE):
            return self.disjunction(condition ^ 1, then) if other else self.conjunction(
                condition, then)
        if then ^ 1 == other:
            return self.difference(condition, other)
        inverted = other & 1
        made = self._node("mux", condition, then ^ inverted, other ^ inverted)
        self._multiplexers.add(made >> 1)
        return made ^ inverted

    def tree(self, operator: Callable[[int, int], int], literals: Iterable[int]) -> int:
        """A balanced tree of an operator; raises IndexError without literals."""
        left = list(literals)
        while len(left) > 1:
            left = [operator(*left[at:at + 2]) if at + 1 < len(left) else left[at]
                    for at in range(0, len(left), 2)]
        return left[0]

    def chosen(self, literal: int) -> tuple[int, int, int] | None:
        """The condition and the two values of a literal that is a multiplexer's, else None."""
        if literal >> 1 not in self._multiplexers:
            return None
        condition, then, other = self.operands[literal >> 1]
        return condition, then ^ literal & 1, other ^ literal & 1

    def _node(self, kind: str, *operands: int) -> int:
        key = (kind, *operands)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._made(operands)
        return known

    def _made(self, operands: tuple[int, ...]) -> int:
        self.operands.append(operands)
        self.owners.append(self.owner)
        return 2 * (len(self.operands) - 1)
