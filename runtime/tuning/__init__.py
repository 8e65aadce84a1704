"""The search for plans: trials, processes that run them, and a pool of such processes."""

from .child import Child, ChildLost
from .trials import Trial, build_trial, run_trial
