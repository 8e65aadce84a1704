"""Devices, compiled networks and the executor."""

from .device import Device, DeviceError, SimulatedDevice, simulator
from .module import InputError, Module, TargetError, compile, compile_graph
from .report import report
