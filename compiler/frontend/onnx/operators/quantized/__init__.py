"""Operators on quantized tensors, of ONNX, com.microsoft, QONNX and Lockstep itself."""
