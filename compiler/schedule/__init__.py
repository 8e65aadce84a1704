"""Schedules: how a program is computed. Each primitive is a pure function from program to program.
"""

from .primitives.compute import compute_at, compute_inline
from .handle import PRIMITIVES, Schedule, StageSchedule
from .primitives.intrinsics import tensorize
from .primitives.layout import storage_align, swizzle, transform_layout
from .primitives.loops import fuse, split, tile, unroll
from .primitives.padding import pad
from .primitives.parallel import annotate, parallel, vectorize
from .primitives.peeling import peel
from .primitives.pipelining import double_buffer, pipeline
from .analysis.place import ScheduleError
from .primitives.reduction import decompose_reduction, rfactor
from .primitives.reorder import reorder
from .primitives.reverse import reverse_compute_at, reverse_inline
from .primitives.warp_specialization import warp_specialize
from .primitives.storage import cache_read, cache_write, set_scope
from .primitives.threads import bind, virtual_thread
