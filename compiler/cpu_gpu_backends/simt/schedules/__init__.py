"""Schedules for GPUs: what is computed and how, a file for each kind of kernel."""

from .convolution import convolution, schedule_convolution
from .depthwise import depthwise, schedule_depthwise
from .elementwise import schedule_elementwise
from .matmul import Tiles, matmul, schedule_matmul
from .reduction import reduce_rows, schedule_reduce_rows
from .softmax import schedule_softmax, softmax
from .transpose import schedule_transpose, transpose
