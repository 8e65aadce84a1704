"""Schedules: how a program is computed. Each primitive is a pure function from program to program.
"""

from .compute import compute_at, compute_inline
from .handle import PRIMITIVES, Schedule, StageSchedule
from .intrinsics import tensorize
from .layout import storage_align, swizzle, transform_layout
from .loops import fuse, split, tile, unroll
from .padding import pad
from .parallel import annotate, parallel, vectorize
from .peeling import peel
from .pipelining import double_buffer, pipeline
from .place import ScheduleError
from .reduction import decompose_reduction, rfactor
from .reorder import reorder
from .reverse import reverse_compute_at, reverse_inline
from .warp_specialization import warp_specialize
from .storage import cache_read, cache_write, set_scope
from .threads import bind, virtual_thread
