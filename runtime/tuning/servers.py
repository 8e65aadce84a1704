"""A scheduler, and a worker of a pool, as processes that run until they are ended."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from compiler.errors import ArgumentError
from runtime.tuning import pool
from runtime.tuning.certificates import Certificates
from runtime.tuning.child import Child
from runtime.tuning.pool import (CONFIG, PoolError, imported, last_line, require_address,
                                 scheduler_options, worker_options)
from runtime.tuning.scratch import pool_folder

PORT = 8786

Say = Callable[[str], None]
"""Is told the address once others can connect."""


def serve_scheduler(port: int, certificates: Certificates | None, say: Say) -> None:
    """Serves workers and clients. Without certificates it hears this computer alone, since whoever
    can connect may run programs. Raises PoolError where the port cannot be had.
    """
    imported()
    from runtime.tuning.nodes import PoolScheduler

    async def serve() -> None:
        scheme = "tls" if certificates else "tcp"
        try:
            scheduler = await PoolScheduler(**scheduler_options(
                certificates, protocol=f"{scheme}://", port=port))
        except OSError as error:
            raise PoolError(f"Port {port} cannot be had: {error.strerror or error}") from None
        async with scheduler:
            say(scheduler.address)
            await scheduler.finished()

    _run(serve)


def serve_worker(address: str, device: str, certificates: Certificates | None, say: Say,
                 limit_seconds: float = 60.0, imports: Sequence[str] = (),
                 core: int | None = None) -> None:
    """Works for the scheduler at this address, with a device. Raises PoolError where it cannot be
    reached, or does not take the certificate, and ArgumentError for a device that is not here.
    """
    distributed = imported()
    require_address(address, certificates)
    if core is not None and core not in os.sched_getaffinity(0):
        raise ArgumentError(f"Core must be one of those that this process may use, not {core}")
    with Child(limit_seconds, imports) as child:
        if error := child.ask({"device": device})["error"]:
            raise ArgumentError(f"Device {device} is not here: {error}")
    from runtime.tuning.nodes import PoolNanny
    from runtime.tuning.worker import TrialRunner

    security = certificates.security() if certificates else distributed.Security()
    runner = TrialRunner(limit_seconds, imports, core)

    async def serve() -> None:
        await _require_reached(address, security)
        async with PoolNanny(address, **worker_options(
                runner, {device: 1}, certificates, local_directory=str(scratch),
                silence_logs=logging.CRITICAL)) as nanny:
            say(str(nanny.worker_address))
            await nanny.finished()

    with pool_folder() as scratch:
        _run(serve)


async def _require_reached(address: str, security: Any) -> None:
    from distributed.comm.core import connect

    try:
        comm = await connect(address, timeout=pool.CONNECT_SECONDS,
                             **security.get_connection_args("worker"))
    except OSError as error:
        reason = last_line(error.__cause__ or error)
        raise PoolError(f"Scheduler at {address} cannot be reached: {reason}") from None
    await comm.close()


def _run(serve: Callable[[], Awaitable[None]]) -> None:
    import dask.config

    async def run() -> None:
        await serve()

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with dask.config.set(CONFIG):
        asyncio.run(run())
