"""The search for plans: trials, processes that run them, and a pool of such processes; and networks
that run on devices of a pool.
"""

from .certificates import Certificates
from .child import Child, ChildLost
from .pool import PoolError, WorkerPool
from .remote import Remote, RemoteDevice, RemoteModule, remote
from .trials import Trial, build_trial, run_trial
