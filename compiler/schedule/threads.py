"""Virtual threads: iterations that take turns with storage of their own."""

from dataclasses import replace

from compiler.ir import For, Program

from .place import find_loop, require_serial, swap

__all__ = ["virtual_thread"]


def virtual_thread(program: Program, loop: str) -> Program:
    """Let iterations overlap as far as their data allow: ``for i in 0..2 (virtual_thread):``.

    ::

        for k_o in 0..2:             for k_o in 0..2 (virtual_thread):
          alloc inp.t: int8[4]         alloc inp.t: int8[4]          one for each thread
          load t                 ->    load t                        while the other thread
          c += f(t)                    c += f(t)                     computes

    Every thread owns what is allocated inside the loop; where threads nest, the innermost one
    does. Iterations keep their order wherever they depend on each other through what lies
    outside, an accumulator say: the tokens that are derived from the final stream see to it. So
    the mark changes where data lie, never what is computed.

    1. The loop is serial: not marked already.
    """
    node = find_loop(program, loop, "virtual_thread")[-1]
    assert isinstance(node, For)
    require_serial(program, node, "virtual_thread")
    return swap(program, node, replace(node, kind="virtual_thread"))
