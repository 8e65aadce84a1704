"""Machines side by side: what differs in declarations and datapaths, and what networks take."""

from .machines import Difference, compare
from .networks import Measured, measure, networks
