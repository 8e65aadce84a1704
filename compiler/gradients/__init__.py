"""Gradients of networks: graphs that compute them."""

from compiler.gradients.losses import cross_entropy, mean_squared_error
from compiler.gradients.reverse import GradientRefused, grad
from compiler.gradients.steps import Adam, Sgd

__all__ = ["Adam", "GradientRefused", "Sgd", "cross_entropy", "grad", "mean_squared_error"]
