"""Post-training quantization: float graphs to their QDQ form in int8."""

from compiler.quantize.quantizer import LayerFigures, Quantized, quantize, quantize_ranges
from compiler.quantize.ranges.refusal import QuantizeRefused

__all__ = ["LayerFigures", "QuantizeRefused", "Quantized", "quantize", "quantize_ranges"]
