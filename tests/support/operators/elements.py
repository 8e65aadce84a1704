"""Cases of products of matrices, of elements, and of what moves them."""

import numpy as np

from compiler.ops.families.row_functions import RECIPROCALS, ROOTS, exponentials
from tests.support.operators.draws import (CLAMP, Draws, OperatorCase, counted, halves, of)

_draws = Draws(20261)
_rng = _draws.rng
_normal = _draws.normal
_int8 = _draws.int8
_uint8 = _draws.uint8
_parameters = _draws.parameters

NUMBERS = np.array([-32768, 301, 12345, -7, 32767], np.int32).reshape(5, 1, 1)
"""Constants of channels."""

MATRICES = [
    OperatorCase("dense", {"trans_b": 1}, (_normal(3, 17), _normal(5, 17), _normal(5))),
    OperatorCase("dense", {"trans_b": 0}, (_normal(3, 17), _normal(17, 5), _normal(1, 1))),
    OperatorCase("dense", {"trans_b": 0}, (_normal(1, 9), _normal(9, 6))),
    OperatorCase("dense", {"trans_b": 1}, (_normal(2, 4), _normal(3, 4), _normal(2, 1))),
    OperatorCase("matmul", {}, (_normal(4, 7), _normal(7, 3))),
    OperatorCase("matmul", {}, (_normal(2, 1, 4, 7), _normal(3, 7, 5))),
    OperatorCase("qmatmul", {"trans_b": 0, "bias": 9, "mult": 40000, "shift": 23, **CLAMP},
                 (_int8(4, 17), _int8(17, 6))),
    OperatorCase("qmatmul", {"trans_b": 1, "bias": 0, "mult": 40000, "shift": 23, **CLAMP},
                 (_int8(2, 1, 4, 9), _int8(3, 5, 9))),
    OperatorCase("qmatmul", {"trans_b": 0, "a_zp": -128, "b_zp": 7, "bias": 9, "mult": 40000,
                             "shift": 25, **CLAMP}, (_int8(3, 4, 17), _int8(17, 6))),
    OperatorCase("qdense", CLAMP, (_int8(2, 3, 1, 37), _int8(5, 37), *_parameters(5, 21))),
    OperatorCase("qdense", CLAMP, (_int8(3, 37), _int8(5, 37), *_parameters(5, 21))),
    OperatorCase("qdense", CLAMP, (np.full((1, 2**17), -128, np.int8),      # the sums wrap
                                   np.full((3, 2**17), -128, np.int8), *_parameters(3, 40))),
]

ELEMENTWISE = [
    OperatorCase("relu", {}, (_normal(2, 3, 5),)),
    OperatorCase("clip", {"lo": -0.3, "hi": 1e-3}, (_normal(2, 3, 5),)),
    OperatorCase("clip", {"lo": 0.25, "hi": np.inf}, (_normal(2, 3, 5),)),
    OperatorCase("clip", {"lo": 3.0, "hi": -1.0}, (_normal(7),)),
    OperatorCase("leakyrelu", {"alpha": 0.1}, (_normal(2, 3, 5),)),
    OperatorCase("leakyrelu", {"alpha": -1.5}, (_normal(2, 3, 5),)),
    OperatorCase("qleakyrelu", {"bias": 5, "mult": 50000, "shift": 15, "mult_below": 40000,
                                "shift_below": 18, **CLAMP},
                 (np.arange(-128, 128).astype(np.int8),)),
    OperatorCase("identity", {}, (_normal(2, 3),)),
    OperatorCase("identity", {}, (_int8(4),)),
    OperatorCase("identity", {}, (of("int64", -7),)),
    OperatorCase("add", {}, (_normal(2, 3, 4), _normal(2, 3, 4))),
    OperatorCase("add", {}, (_normal(2, 1, 4), _normal(3, 1))),
    OperatorCase("add", {}, (_normal(), _normal(3, 2))),
    OperatorCase("mul", {}, (_normal(2, 1, 4), _normal(3, 1))),
    OperatorCase("qadd", {"ma": 45942, "mb": 21987, "c": 2584626, "shift": 16, **CLAMP},
                 tuple(grid.astype(np.int8) for grid in np.meshgrid(np.arange(-128, 128),
                                                                    np.arange(-128, 128, 5)))),
    OperatorCase("qadd", {"ma": 2**15, "mb": 0, "c": 0, "shift": 16, "zp": 0, "lo": -128,
                          "hi": 127}, (np.arange(-128, 128).astype(np.int8),) * 2),
    OperatorCase("qrescale", {"bias": 5, "mult": 50000, "shift": 15, **CLAMP},
                 (np.arange(-128, 128).astype(np.int8),)),
    OperatorCase("qrescale", {"bias": 0, "mult": 0, "shift": 46, **CLAMP}, (_int8(3, 2),)),
    *(OperatorCase(op, {"axis": axis}, (_int8(*shape) >> 5,)) for op in ("qargmax", "qargmin")
      for axis, shape in ((1, (2, 300, 3)), (2, (2, 3, 1)), (0, (5, 2)))),
    OperatorCase("quantize", {"scale": 0.25, "zp": 3}, (halves(0.25),)),
    OperatorCase("quantize", {"scale": 0.1, "zp": -128}, (halves(0.1),)),
    OperatorCase("dequantize", {"scale": 0.037, "zp": -128},
                 (np.arange(-128, 128).astype(np.int8),)),
    OperatorCase("quantizelinear", {"axis": 1},
                 (halves(0.1), of("float32", 0.1), of("uint8", 130))),
    OperatorCase("quantizelinear", {"axis": 1},
                 (10 * _normal(2, 3, 5), of("float32", [0.1, 0.2, 0.3]),
                  of("int8", [3, -2, 127]))),
    OperatorCase("fake_quantize", {"axis": 0, "lo": -3, "hi": 12},
                 (halves(0.1), of("float32", 0.1))),
    OperatorCase("fake_quantize", {"axis": 1, "lo": -8, "hi": 7},
                 (10 * _normal(2, 3, 5), of("float32", [0.1, 2, 0.3]))),
    OperatorCase("dequantizelinear", {"axis": 0},
                 (_int8(3, 4, 2), of("float32", [0.1, 0.2, 0.3]), of("int8", [3, -128, 127]))),
    OperatorCase("dequantizelinear", {"axis": 1},
                 (_uint8(2, 40), of("float32", 0.013), of("uint8", 200))),
    OperatorCase("dequantizelinear", {"axis": 0},
                 (of("int32", [2**31 - 1, -2**31, 2**24 + 1]), of("float32", 0.5),
                  of("int32", 2**24))),
    *(OperatorCase("qorder", {"count": count, "largest": largest, "part": part}, (
        _int8(*shape) >> ties,)) for count, ties, shape in ((3, 4, (2, 9)), (80, 2, (2, 1, 300)))
      for largest in (0, 1) for part in range(3)),
    OperatorCase("qgather", {}, (_int8(3, 2, 2) & np.array([127, 0], np.int8), _int8(300, 5))),
    OperatorCase("qgather", {}, (np.array([[[0, 0], [44, 1], [-1, 0]]], np.int8), _int8(301, 3))),
    OperatorCase("to_int8", {}, (np.arange(256).astype(np.uint8),)),
    OperatorCase("qtable", {}, (np.arange(-128, 128).astype(np.int8), _int8(256))),
    OperatorCase("qtable", {}, (_int8(2, 3, 5, 7), _int8(256))),
    *(OperatorCase("qpieces", {"fraction": fraction, "bent": bent}, (
        np.linspace(-2**15, 2**15 - 1, 999).astype(np.int16).reshape(shape),
        *(_int8(256) for _ in range(6)))) for fraction, bent, shape in (
            (12, 6, (3, 333)), (8, 0, (9, 1, 111)))),
    OperatorCase("qbelow_max", {}, (_int8(3, 4, 9),)),
    OperatorCase("qsoftmax", {"mult": 40000, "shift": 37, "zp": -128, "lo": -128, "hi": 127},
                 (_int8(5, 21), *exponentials(0.02), RECIPROCALS)),
    OperatorCase("qlayer_norm", {"epsilon": 90, "mult": 50000, "shift": 37, "zp": 3, "lo": -128,
                                 "hi": 120},
                 (_int8(2, 5, 24), _rng.integers(-16384, 16385, 24).astype(np.int16),
                  _rng.integers(-2**27, 2**27, 24).astype(np.int32), ROOTS)),
    OperatorCase("qrms_norm", {"zero": 11, "epsilon": 90, "zp": 3, "lo": -128, "hi": 120},
                 (np.arange(240).reshape(2, 5, 24).astype(np.int8),
                  np.linspace(1 << 15, 65535, 24).astype(np.int32),
                  np.full(24, 24, np.int32), ROOTS, of("int8", [1, -1, 1] * 8))),
    OperatorCase("put_place", {"axis": 1}, (np.arange(24, dtype=np.float32).reshape(2, 4, 3),
                                            np.ones((2, 1, 3), np.float32), of("int64", [2]))),
    OperatorCase("put_place", {"axis": 0}, (np.arange(6, dtype=np.float32).reshape(3, 2),
                                            np.ones((1, 2), np.float32), of("int64", [-1]))),
    OperatorCase("qput", {"axis": 2}, (np.arange(24).reshape(2, 3, 4).astype(np.int8),
                                       of("int8", [[[5], [6], [7]]] * 2), of("int64", [3]))),
    OperatorCase("qmap", {"function": "requantize((x0 - 3) * (x1 + 128), 40000, 23, -7, -120, "
                                      "110)"},
                 (_int8(2, 3, 1, 1), _int8(2, 3, 4, 5))),
    OperatorCase("qmap", {"function": "requantize(x0 * 77 - x1 + 5, 65535, 24, 3, -128, 127)"},
                 (_int8(2, 3, 4, 5), _rng.integers(-2**15, 2**15, (3, 1, 1)).astype(np.int16))),
    OperatorCase("qmap", {"function": "clamp(max(abs(x0 - x1), x2) - 5, -128, 127)"},
                 (_int8(2, 3), _int8(3), _int8(2, 1))),
    OperatorCase("qmap", {"function": "clamp(select(x0 < -x1, rshift_rne(x0 * 5, 2), "
                                      "min(x1 << 1, x0 >> 1)), -128, 127)"},
                 tuple(grid.astype(np.int8) for grid in np.meshgrid(np.arange(-128, 128),
                                                                    np.arange(-128, 128, 5)))),
    OperatorCase("qmap", {"function": "int32(rshift_rne(int64(x0) * 40000, 17)) & 8191"},
                 (_rng.integers(-2**15, 2**15, (2, 3, 5)).astype(np.int16),)),
    OperatorCase("qmap", {"function": "int32(clamp(rshift_rne(int64(x0) * int64(int16(x1)), "
                                      "int64(uint8(x2) & 63)), -128, 127))"},
                 (counted("int8", 2, 5, 3, 3), NUMBERS, NUMBERS // 17 & 15 | 6)),
    OperatorCase("quantized_map", {"function": "clamp((x0 * int32(int16(x1))) >> 14, -128, 127)"},
                 (counted("uint8", 2, 5, 3, 3), NUMBERS)),
    OperatorCase("qterms", {"term": "(x0 - x1) * (x0 - x1)", "bias": 0, "mult": 50000, "shift": 27,
                            **CLAMP}, (counted("int8", 2, 3, 19), counted("int8", 5, 19))),
    OperatorCase("quantized_terms", {"term": "abs(x0 - x1)", "bias": 9, "mult": 40000, "shift": 21,
                                     **CLAMP},
                 (counted("uint8", 4, 7), counted("uint8", 3, 7)[:, ::-1])),
    OperatorCase("quantized_map", {"function": "clamp(max(x0, x1) - 5, -128, 127)"},
                 (_uint8(2, 3, 1), _uint8(3, 4))),
    OperatorCase("quantized_map", {"function": "clamp(x0 * x0 >> 9, -9, 32767)"},
                 (_rng.integers(-2**15, 2**15, (2, 7)).astype(np.int16),)),
    OperatorCase("to_uint8", {}, (np.arange(-128, 128).astype(np.int8),)),
]

RESHAPES = [OperatorCase("reshape", {"shape": made}, (_normal(*read),)) for read, made in [
    ((2, 3, 4), (2, 12)), ((2, 3, 4), (4, 6)), ((2, 12), (1, 2, 1, 4, 3)), ((2, 5, 1, 1), (2, 5)),
    ((6,), (2, 3)), ((), (1, 1)), ((1, 1), ()), ((3, 2), (3, 2)), ((4, 3, 5), (2, 6, 5)),
]]

MOVEMENTS = [
    OperatorCase("upsample", {"factors": (2, 3)}, (_int8(2, 3, 4, 5),)),
    OperatorCase("upsample", {"factors": (1, 4)}, (_normal(1, 2, 3, 1),)),
    OperatorCase("transpose", {"perm": (2, 0, 3, 1)}, (_int8(2, 3, 4, 5),)),
    OperatorCase("transpose", {"perm": (1, 0)}, (_normal(3, 4),)),
    OperatorCase("relayout", {"perm": (0, 2, 3, 1)}, (_int8(2, 3, 4, 5),)),
    OperatorCase("slice", {"begin": (0, 3, 1, 0), "end": (2, 7, 6, 5), "step": (1, 2, 1, 3)},
                 (_int8(2, 8, 6, 5),)),
    OperatorCase("slice", {"begin": (2,), "end": (3,), "step": (4,)}, (of("int64", [1, 2, 3]),)),
    OperatorCase("concat", {"axis": 1}, (_normal(2, 3, 4), _normal(2, 1, 4), _normal(2, 5, 4))),
    OperatorCase("concat", {"axis": 0}, (_int8(2, 3), _int8(4, 3))),
    OperatorCase("concat", {"axis": 2}, (_uint8(2, 3, 1),)),
    OperatorCase("qconcat", {"bias": (3, -5, 128), "mult": (40000, 33000, 0),
                             "shift": (15, 16, 46), **CLAMP},
                 (_int8(2, 3, 4, 5), _int8(2, 8, 4, 5), _int8(2, 1, 4, 5))),
    OperatorCase("qconcat", {"bias": (3, -5), "mult": (40000, 33000), "shift": (16, 15), "axis": 3,
                             **CLAMP}, (_int8(2, 3, 4, 5), _int8(2, 3, 4, 2))),
    OperatorCase("qconcat", {"bias": (-9, 0), "mult": (65535, 32768), "shift": (17, 15), **CLAMP},
                 (_int8(3, 8), _int8(3, 5))),
]
