"""Registers the targets of `tests.support.sleeping_target`, for processes of trials alone: messages
about targets name those that are registered.
"""

from tests.support.sleeping_target import register_both

register_both()
