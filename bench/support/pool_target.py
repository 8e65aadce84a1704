"""Registers the target of `searches.pools`; processes of trials import this."""

from bench.support.pauses import KIND, pause_target
from runtime.driver.targets import register

register(KIND, pause_target)
