"""Post-training quantization: float ONNX models to int8 ones in the QDQ form."""

from compiler.quantize.quantizer import LayerFigures, Quantized, quantize, quantize_ranges
from compiler.quantize.refusal import QuantizeRefused

__all__ = ["LayerFigures", "QuantizeRefused", "Quantized", "quantize", "quantize_ranges"]
