"""Loop programs."""

from .nodes import (LOOP_KINDS, Alloc, Binding, For, If, Program, Seq, Stmt, Store, Tensorized,
                    Update)
