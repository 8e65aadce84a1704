"""Gradients of networks: graphs that compute them."""

from compiler.gradients.reverse import GradientRefused, grad

__all__ = ["GradientRefused", "grad"]
