"""The servers of dask.distributed as a pool runs them: they open the port that they are told to,
and none for HTTP.
"""

from typing import Any

from distributed import Nanny, Scheduler, Worker
from distributed.node import ServerNode

from compiler.processes import hold


class _WithoutHttp(ServerNode):
    """Dask has no setting for it. Its HTTP server shows logs to whoever asks, without a
    certificate.
    """

    def start_http_server(self, *_: Any, **__: Any) -> None:
        pass


class PoolScheduler(_WithoutHttp, Scheduler):
    """Hands out work."""


class PoolWorker(_WithoutHttp, Worker):
    """Does work; see `runtime.tuning.worker`."""


class PoolNanny(Nanny):
    """Starts a worker, and starts it again when it dies, but not because this process ends."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, worker_class=PoolWorker, **options)

    async def instantiate(self) -> Any:
        hold()
        return await super().instantiate()
