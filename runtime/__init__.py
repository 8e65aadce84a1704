"""Devices, compiled networks and the executor."""

from compiler.graph.graph import Graph

from .artifact import ArtifactError
from runtime.driver.compilation import compile, compile_for, compile_graph, compile_on, quantized
from runtime.driver.decoding import Decoder, decoder
from runtime.devices.device import Device, DeviceError, SimulatedDevice, simulator
from runtime.pricing.link import Link
from runtime.driver.loading import load
from .module import InputError, Module
from .report import report
from runtime.driver.targets import TargetError, register, target_machine
