"""Marks loops whose iterations run at the same time, and annotates loops for back ends."""

import re
from dataclasses import replace

from compiler.ir import BLOCK_KINDS, THREAD_KINDS, UNORDERED_KINDS, For, Program, loops

from compiler.schedule.analysis.dependence import ROUNDS, carried, commutes, refuse_dependence
from compiler.schedule.analysis.place import find_loop, refuse, require_number, require_serial, swap

__all__ = ["OUTSIDE", "annotate", "parallel", "require_independent", "require_marks",
           "require_no_mark_around", "require_no_mark_inside", "vectorize"]

_LANES = ("parallel", "vectorize")
OUTSIDE = ({"parallel": (*_LANES, *BLOCK_KINDS, *THREAD_KINDS), "vectorize": ("vectorize",)}
           | {kind: (kind, *THREAD_KINDS, *_LANES) for kind in BLOCK_KINDS}
           | dict.fromkeys(THREAD_KINDS, _LANES))
"""Maps a loop's kind to the kinds that no enclosing loop may have."""


def parallel(program: Program, loop: str) -> Program:
    """Lets threads of the CPU share the iterations: ``for i in 0..64 (parallel):``.

    1. The loop is serial: not marked already.
    2. No iteration touches an element of a buffer allocated outside of the loop that another one
       writes. A reduction over the loop does: `rfactor` it first.
    3. No other parallel loop, and no loop of blocks or threads of a GPU, is around it or inside;
       no vectorized loop is around it.
    """
    node, path = _serial(program, loop, "parallel")
    require_no_mark_around(program, path, OUTSIDE["parallel"], "parallel")
    require_no_mark_inside(program, node, ("parallel", *BLOCK_KINDS, *THREAD_KINDS), "parallel")
    require_independent(program, path, "parallel")
    return swap(program, node, replace(node, kind="parallel"))


def vectorize(program: Program, loop: str) -> Program:
    """Makes the iterations the lanes of vectors: ``for j in 0..16 (vectorize):``.

    1. The loop is serial, not marked already, and its extent is a number.
    2. No iteration touches an element of a buffer allocated outside of the loop that another one
       writes. A reduction over the loop does: `rfactor` it first, or `reorder`.
    3. No loop inside is marked as vectorized, parallel, or as blocks or threads.
    """
    node, path = _serial(program, loop, "vectorize")
    require_number(program, node, "vectorize")
    require_no_mark_around(program, path, OUTSIDE["vectorize"], "vectorize")
    require_no_mark_inside(program, node, UNORDERED_KINDS, "vectorize")
    require_independent(program, path, "vectorize")
    return swap(program, node, replace(node, kind="vectorize"))


def annotate(program: Program, loop: str, key: str, value) -> Program:
    """Annotates a loop for the back end: ``for i in 0..4 (parallel, num_threads=2):``.

    The value takes the place of an earlier one. Its meaning is up to the back end; a note never
    changes what is computed.

    1. The key is a name. The value is an integer, a string or a truth value.
    """
    node = find_loop(program, loop, "annotate")[-1]
    assert isinstance(node, For)
    if not re.fullmatch(r"[a-z_]\w*", key):
        refuse("annotate", f"key must be a name, not {key!r}", program, node)
    if not isinstance(value, int | str | bool):
        refuse("annotate", f"value of {key} must be an integer, a string or a truth value, "
                           f"not {value!r}", program, node)
    notes = dict(node.annotations) | {key: value}
    return swap(program, node, replace(node, annotations=tuple(sorted(notes.items()))))


def _serial(program: Program, loop: str, primitive: str):
    path = find_loop(program, loop, primitive)
    node = path[-1]
    assert isinstance(node, For)
    require_serial(program, node, primitive)
    return node, path


def require_independent(program: Program, path: tuple, primitive: str, **exchange: bool):
    """Refuses a loop that carries a dependence; `exchange` says which do not count."""
    loop = path[-1]
    if dependence := carried(path, **exchange):
        why = f": {dependence.a.buffer.name} {ROUNDS}" if exchange.get("exchange") and (
            commutes(dependence.a, dependence.b, reassociate=True)) else ""
        refuse_dependence(primitive, f"iterations of {loop.var.name} must not depend on each "
                                     f"other{why}", program, dependence)


def require_no_mark_around(program: Program, path: tuple, kinds: tuple[str, ...], primitive: str):
    for around in path[:-1]:
        if isinstance(around, For) and around.kind in kinds:
            refuse(primitive, f"{path[-1].var.name} must not be inside of {around.var.name} "
                              f"({around.kind})", program, around)


def require_no_mark_inside(program: Program, node: For, kinds: tuple[str, ...], primitive: str):
    for inside in loops(node.body):
        if inside.kind in kinds:
            refuse(primitive, f"{node.var.name} must not be around {inside.var.name} "
                              f"({inside.kind})", program, inside)


def require_marks(program: Program, primitive: str):
    """Refuses a program in which a marked loop now carries a dependence, or stands inside a loop
    that it must enclose.
    """
    for loop in loops(program.body):
        if loop.kind not in UNORDERED_KINDS:
            continue
        path = find_loop(program, loop.var.name, primitive)
        require_no_mark_around(program, path, OUTSIDE[loop.kind], primitive)
        threads = loop.kind in THREAD_KINDS     # `bind` permitted reducing together
        require_independent(program, path, primitive, exchange=threads, reassociate=threads)
