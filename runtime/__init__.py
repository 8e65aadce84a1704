"""Devices, compiled networks and the executor."""

from compiler.graph.graph import Graph

from .artifact import ArtifactError
from .compilation import compile, compile_for, compile_graph, compile_on, quantized
from .decoding import Decoder, decoder
from .device import Device, DeviceError, SimulatedDevice, simulator
from .link import Link
from .loading import load
from .module import InputError, Module
from .report import report
from .targets import TargetError, register, target_machine
