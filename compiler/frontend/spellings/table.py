"""The table of spellings: how operators of files write quantization; and that of the tools.

A sign is a line that a reader of files makes of one operator: its name, with its domain where that
is not ONNX's own, and what the file says of its types. The first pattern that a sign begins with
names its spelling; an operator of no pattern quantizes nothing.
"""

import re

SPELLINGS = tuple((name, re.compile(pattern)) for name, pattern in (
    ("QDQ", r"(QuantizeLinear|DequantizeLinear)\b"),
    ("QDQ of com.microsoft", r"com\.microsoft\.(QuantizeLinear|DequantizeLinear)\b"),
    ("QCDQ", r"Clip of integers"),
    ("QOperator", r"QLinear(Conv|MatMul)\b"),
    ("QOperator of com.microsoft",
     r"com\.microsoft\.(QLinear|QGemm\b|QAttention\b|QMoE\b|QOrdered)"),
    ("dynamic", r"(DynamicQuantizeLinear|ConvInteger|MatMulInteger)\b"),
    ("dynamic of com.microsoft",
     r"com\.microsoft\.(DynamicQuantize|MatMulInteger|ConvInteger|MulInteger|ReduceSumInteger|QEmbed)"),
    ("groups of weights", r"com\.microsoft\.(MatMulNBits|MatMulBnb4|MatMulFpQ4|GatherBlockQuant)"),
    ("QONNX", r"(qonnx|onnx\.brevitas|finn)\b.*\b\w*(Quant|Trunc)\b"),
    ("QDQ of AMD", r"com\.(amd\.quark|vai\.quantize)\.\w*[Qq]uantizeLinear"),
    ("FakeQuantize", r"(org\.openvinotoolkit\.)?Fake_?Quantize"),
    ("TensorRT", r"trt\.TRT_"),
    ("instructions of Lockstep", r"lockstep\."),
    ("TFLite weights of few bits", r"[A-Z][A-Z0-9_]+ .*\bint[24]\b"),
    ("TFLite 16x8", r"[A-Z][A-Z0-9_]+ int16\b"),
    ("TFLite dynamic range", r"[A-Z][A-Z0-9_]+ float32, weights"),
    ("TFLite weights alone", r"DEQUANTIZE constant"),
    ("TFLite integers", r"[A-Z][A-Z0-9_]+ (u?int\d+)\b"),
    ("TFLite FAKE_QUANT", r"FAKE_QUANT\b"),
    ("Core ML constants", r"constexpr_"),
    ("Core ML activations", r"(quantize|dequantize)\b"),
    ("quantized_decomposed", r"quantized_decomposed\."),
    ("torch's quantized", r"(quantized|_quantized)\.|aten\.(de)?quantize\b|aten\.quantize_per"),
    ("torch's fake_quantize", r"aten\.(_?fake_quantize|_?fused_moving_avg_obs_fake)"),
    ("torch's products of integers", r"aten\._int_mm\b"),
    ("torch's packed weights", r"aten\._(weight_)?int\d+|aten\._dyn_quant"),
    ("torchao", r"torchao\.|.*torchao"),
))
"""Names of spellings, and what their signs begin with."""

TOOLS = tuple((name, re.compile(pattern)) for name, pattern in (
    ("ONNX Runtime's quantizer", r"onnx\.quantize"),
    ("Lockstep's quantizer", r"lockstep"),
    ("Olive", r"olive"),
    ("Neural Compressor", r"neural.compressor"),
    ("NNCF", r"nncf"),
    ("Brevitas", r"brevitas"),
    ("QONNX", r"qonnx"),
    ("PyTorch", r"pytorch|torch\b"),
    ("AI Edge Quantizer", r"ai.edge"),
    ("TensorFlow's converter", r"mlir converted|toco converted|tensorflow"),
    ("coremltools", r"coremltools"),
    ("tf2onnx", r"tf2onnx"),
    ("Keras", r"keras"),
))
"""Names of tools, and what stands in the producer that a file names, in small letters."""


def spelling_of(sign: str) -> str | None:
    """The spelling of a sign; None for an operator that quantizes nothing."""
    return next((name for name, pattern in SPELLINGS if pattern.match(sign)), None)


def tool_of(producer: str) -> str:
    """The tool that calls itself so, "" for one that the table lacks."""
    return next((name for name, pattern in TOOLS if pattern.search(producer.lower())), "")
