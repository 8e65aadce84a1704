"""Loop programs: nodes, text, verifier, reference interpreter, simplifier, index sets."""

from compiler.te import free_variables

from .affine import Linear, affine, from_linear, interval, is_index, linear, offset
from .build import lower
from .index_sets import (Access, Box, Domain, Witness, accesses, bounds, conflict, covers,
                         footprint, hull, is_implied, loop_domain, negated, widest, witness)
from .interpret import interpret
from .nodes import (BLOCK_KINDS, LOOP_KINDS, THREAD_KINDS, UNORDERED_KINDS, Alloc, Barrier, Binding,
                    Combine, For, If, Program, Seq, Stmt, Store, Tensorized, Update, Write)
from .printer import expr_text, extent_text, program_text, shape_text, stmt_text
from .simplify import conjuncts, normalize, normalize_stmt, simplify, simplify_stmt
from .specialize import (bindings, concrete, extent_value, specialize, symbols_of,
                         values_in)
from .verify import RULES, VerifyError, verify
from .visit import (block, buffers_of, expressions, loops, map_buffers, map_exprs, map_reads,
                    names_below, path_of, path_to, path_to_alloc, path_to_loop, reads, rebuilt,
                    replace_axes, replace_stmt, rewrite_stmts, stmt_children, substitute_stmt,
                    unblock, walk_stmts, writes)
