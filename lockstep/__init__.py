"""Lockstep: an accelerator whose hardware, simulators and compiler share one declaration."""
