"""Machines side by side: what differs in declarations and datapaths, and what networks take."""

from .machines import MachineDifference, compare
from .networks import NetworkCycles, measure, networks
