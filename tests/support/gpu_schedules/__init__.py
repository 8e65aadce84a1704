"""Schedules for GPUs: what is computed and how, a file for each kind of kernel."""

from .convolution import convolution, schedule_convolution
from .depthwise import depthwise, schedule_depthwise
from .dot_products import matmul_bytes, schedule_bytes
from .elementwise import schedule_elementwise
from .matmul import LARGE, MatmulTiles, matmul, schedule_matmul
from .reduction import argmax, reduce_rows, schedule_argmax, schedule_reduce_rows
from .softmax import schedule_softmax, softmax
from .tensor_cores import matmul_tensor_cores, schedule_tensor_cores
from .transpose import schedule_transpose, transpose
