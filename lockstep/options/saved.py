"""Compiled modules in place of networks."""

import argparse
import os

from compiler.errors import RequestError
from lockstep.options.arguments import DEFAULT_THREADS, QUANTIZER
from lockstep.options.whole import ACCURACY


def saved_module(args: argparse.Namespace, machine: str | None):
    """The compiled module, if the file is one, else None: for the accelerator `machine`, a name or
    a file, or for what the module says. With a module, `args` gets its target; otherwise
    `args.target` stays as it is.
    """
    from accel.machine.loading import load_machine
    from compiler.frontend.kinds import is_no_module
    from runtime.artifact import is_archive, read
    from runtime.driver.targets import is_gpu

    if is_no_module(args.model) or not (os.path.isfile(args.model)
                                        and is_archive(args.model)):
        args.threads = args.threads or DEFAULT_THREADS
        return None
    for option in ("target", "bus_bytes", "threads", "effort", "shape", "bind", "no_integerize",
                   "no_cache", "strict", "pin", "link", "objective", "arch", "precision",
                   "calibration", *QUANTIZER, *ACCURACY):
        if getattr(args, option, None) not in (None, False, 0, [], {}, ""):
            raise RequestError(f"--{option.replace('_', '-')} must be left out for "
                               f"{str(args.model)!r}: it is compiled")
    saved = read(args.model, load_machine(machine) if machine else None)
    if machine and saved.machine is None:
        raise RequestError(f"--machine must be left out for {str(args.model)!r}: it is compiled "
                           f"for the host alone")
    if args.memory and saved.machine is None:
        raise RequestError(f"--memory must be left out for {str(args.model)!r}: it is compiled "
                           f"for the host alone")
    accelerators = [f"accel:{saved.machine.config.name}"] if saved.machine else []
    gpus = [segment.target for segment in saved.partition.segments if is_gpu(segment.target)]
    args.target = ",".join(dict.fromkeys([*accelerators, *gpus])) or "cpu"
    args.threads = saved.settings.get("threads", DEFAULT_THREADS)
    return saved
