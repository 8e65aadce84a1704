"""Rows of products as long as vectors, of which compilers compute a remainder term by term.

::

    for k in 0..40:                            for k in 0..48:
      acc += x[0, k] * w[c, k]         ->        acc += x[0, 8 - ahead + k] * w[40*c - ahead + k]

A row of pixels has zeros before and behind its terms. Behind the terms of a row of weights lies the
next row, with which the zeros are multiplied: `ahead` is 0. Behind the last row lies nothing, so
that the last channels begin in the row before: `ahead` is 8, and zeros come first. Weights take no
more memory so, and processors without vectors compute few products more.
"""

from dataclasses import replace

from compiler.cpu_gpu_backends.simt.lowering import flat
from compiler.ir import (Alloc, For, Program, Seq, Stmt, Store, Update, loops, map_exprs, reads,
                         replace_axes, rewrite_stmts, walk_stmts)
from compiler.te import INDEX, Binary, Buffer, Cast, Const, Expr, Read, Var, rewrite, substitute

TERMS = 16              # of a vector, or several
FEWEST = 4              # terms of a row for one that is added


def in_whole_vectors(program: Program, pixels: str, weight: str, together: int) -> Program:
    """The program with longer rows of the buffers of pixels, of that name or peeled off it, where
    few terms are missing; `together` are the channels that are computed at a time.
    """
    rows = next((buffer for buffer in program.inputs if buffer.name == weight), None)
    if rows is None:
        return program
    channels, terms = map(int, rows.shape)
    missing = -terms % TERMS
    sums = [s for s in walk_stmts(program.body) if isinstance(s, Update)]
    if not missing or missing * FEWEST > terms or channels == together or not all(
            _is_of_products(update, rows) for update in sums):
        return program
    old = [s.buffer for s in walk_stmts(program.body) if isinstance(s, Alloc)
           and s.buffer.name.split("_last")[0] == pixels]
    made = _Longer({buffer: replace(buffer, shape=(buffer.shape[0], terms + 2 * missing))
                    for buffer in old}, rows, missing, channels - together)
    body = map_exprs(rewrite_stmts(program.body, made.stmt), lambda expr: rewrite(expr, made.read))
    return replace(program, body=body, inputs=tuple(
        made.flat if buffer == rows else buffer for buffer in program.inputs))


def _is_of_products(update: Update, weights: Buffer) -> bool:
    match update.value:
        case Binary("mul", Cast(Read(a)), Cast(Read(b))): return weights in (a, b)
    return False


class _Longer:
    """Rewrites statements: buffers of `pixels` have `missing` zeros at both ends of a row, and the
    rows of weights from the `last` on are read from before their beginning.
    """

    def __init__(self, pixels: dict[Buffer, Buffer], weights: Buffer, missing: int, last: int):
        self.pixels, self.weights, self.missing, self.last = pixels, weights, missing, last
        self.terms = int(weights.shape[1])
        self.flat = replace(weights, shape=(weights.size,))

    def stmt(self, node: Stmt) -> Stmt | None:
        match node:
            case Alloc(buffer, body) if buffer in self.pixels:
                longer = self.pixels[buffer]
                return Alloc(longer, flat(Seq((_zeros(longer), body))))
            case Store(buffer, (row, place), value) if buffer in self.pixels:
                return Store(self.pixels[buffer], (row, place + self.missing), value)
            case For() if (update := _sum_over(node)) is not None:
                return self._over(node, update)
        return None

    def _over(self, nest: For, update: Update) -> Stmt:
        """One loop over all terms for the nest of a sum."""
        body: Stmt = nest
        while isinstance(body, For) and body.var in update.axes:
            body = body.body
        term = nest.var if len(update.axes) == 1 else Var(f"{nest.var.name}_all")
        ahead = self._ahead(body) * self.missing

        def read(expr: Expr) -> Expr | None:
            match expr:
                case Read(buffer, (row, _)) if buffer in self.pixels:
                    return Read(self.pixels[buffer], (row, term - ahead + self.missing))
                case Read(buffer, (row, _)) if buffer == self.weights:
                    return Read(self.flat, (row * self.terms - ahead + term,))
            return None

        body = replace_axes(body, dict.fromkeys(update.axes, (term,)))
        return For(term, self.terms + self.missing, map_exprs(
            body, lambda expr: rewrite(expr, read)))

    def read(self, expr: Expr) -> Expr | None:
        """Elements of weights that are read elsewhere, too."""
        match expr:
            case Read(buffer, (row, place)) if buffer == self.weights:
                return Read(self.flat, (row * self.terms + place,))
        return None

    def _ahead(self, tile: Stmt) -> Expr:
        """1 where the channels of a tile are the last ones, 0 elsewhere."""
        first = next(read.indices[0] for stmt in walk_stmts(tile) for read in reads(stmt)
                     if read.buffer == self.weights)
        lanes = {loop.var: Const(0, INDEX) for loop in loops(tile)}
        return substitute(first, lanes) // self.last


def _sum_over(nest: For) -> Update | None:
    """The sum over terms of which a loop is the first."""
    found = next((s for s in walk_stmts(nest) if isinstance(s, Update)), None)
    return found if found is not None and found.axes[:1] == (nest.var,) else None


def _zeros(buffer: Buffer) -> Stmt:
    row, place = (Var(f"{buffer.name}_{name}") for name in ("row", "zero"))
    return For(row, buffer.shape[0], For(place, buffer.shape[1], Store(
        buffer, (row, place), Const(0, buffer.dtype))))
