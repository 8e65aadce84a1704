"""Loop programs: nodes, text, verifier, reference interpreter, simplifier, index sets."""

from .affine import (Linear, affine, free_variables, from_linear, interval, is_index, linear)
from .build import lower
from .index_sets import (Access, Box, Domain, accesses, bounds, conflict, covers, footprint,
                         hull, is_implied, loop_domain)
from .interpret import interpret
from .nodes import (LOOP_KINDS, Alloc, Binding, For, If, Program, Seq, Stmt, Store, Tensorized,
                    Update)
from .printer import expr_text, program_text, stmt_text
from .simplify import conjuncts, normalize, normalize_stmt, simplify, simplify_stmt
from .verify import RULES, VerifyError, verify
from .visit import (block, buffers_of, expressions, loops, map_buffers, map_exprs, path_to, reads,
                    replace_axes, replace_stmt, rewrite_stmts, stmt_children, substitute_stmt,
                    unblock, walk_stmts, writes)
