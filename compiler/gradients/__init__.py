"""Gradients of networks: graphs that compute them."""

from compiler.gradients.losses import cross_entropy, mean_squared_error
from compiler.gradients.rates import LearningRates
from compiler.gradients.reverse import GradientRefused, grad
from compiler.gradients.steps import Adam, Sgd
from compiler.gradients.trainable import Trainable, trainable

__all__ = ["Adam", "GradientRefused", "LearningRates", "Sgd", "Trainable", "cross_entropy", "grad",
           "mean_squared_error", "trainable"]
