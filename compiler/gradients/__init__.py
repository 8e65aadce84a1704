"""Gradients of networks: graphs that compute them."""

from compiler.gradients.losses import cross_entropy, mean_squared_error
from compiler.gradients.reverse import GradientRefused, grad

__all__ = ["GradientRefused", "cross_entropy", "grad", "mean_squared_error"]
