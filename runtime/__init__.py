"""Devices, compiled networks and the executor."""

from compiler.graph.graph import Graph

from .artifact import ArtifactError
from .compilation import TargetError, compile, compile_for, compile_graph, quantized, target_config
from .costs import Link
from .device import Device, DeviceError, SimulatedDevice, simulator
from .loading import load
from .module import InputError, Module
from .report import report
