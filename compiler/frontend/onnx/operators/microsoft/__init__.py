"""Operators of com.microsoft that are no spellings of quantization alone."""
