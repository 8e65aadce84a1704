"""Gradients of operators, a module for each family, a function for each operator."""
