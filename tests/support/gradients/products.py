"""Random nodes of products of matrices, and after Einstein."""

from tests.support.gradients.draws import Drawn, Rng, broadcast_shapes, partly, some

def dense(rng: Rng) -> Drawn:
    m, k, n = rng.integers(1, 5, 3).tolist()
    turned = int(rng.integers(2))
    arrays = [some(rng, m, k), some(rng, n, k) if turned else some(rng, k, n),
              some(rng, *partly(rng, (m, n)))]
    return Drawn(tuple(arrays[:rng.integers(2, 4)]), {"trans_b": turned})


def matmul(rng: Rng) -> Drawn:
    m, k, n = rng.integers(1, 5, 3).tolist()
    first, second = broadcast_shapes(rng, 2)
    turned = int(rng.integers(2))
    b = some(rng, *second, n, k) if turned else some(rng, *second, k, n)
    return Drawn((some(rng, *first, m, k), b), {"trans_b": turned} if turned else {})


EQUATIONS = ("ab,bc->ac", "abc,cd->dab", "aa->a", "aa->", "ab->", "a,b->ab", "abab->ba",
             "ab,ab,b->a", "abc->b", ",ab->ba", "aab,bc->ac", "ab,ab->ab", "ab->ba")


def einsum(rng: Rng) -> Drawn:
    equation = EQUATIONS[rng.integers(len(EQUATIONS))]
    extents = {letter: int(rng.integers(1, 5)) for letter in "abcd"}
    arrays = []
    for term in equation.split("->")[0].split(","):
        narrow = rng.random() < 0.3 and len(set(term)) == len(term)
        one = term[rng.integers(len(term))] if narrow and term else ""
        arrays.append(some(rng, *(1 if letter == one else extents[letter] for letter in term)))
    return Drawn(tuple(arrays), {"equation": equation})
