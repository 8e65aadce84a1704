"""A run on a worker of a pool: the network is compiled here."""

import argparse
import sys
import time

from lockstep.options.arguments import certificates_of
from lockstep.options.inputs import arrays, set_inputs
from lockstep.printing.progress import progress_bar
from lockstep.provenance import Asked
from lockstep.running.networks import compiled_network, imported_network
from lockstep.running.results import provenance, put_results, show
from runtime import DeviceError, report
from runtime.exporting.ports import random_inputs
from runtime.tuning.pool import device_of
from runtime.tuning.remote import RemoteError, remote


def run_there(args: argparse.Namespace, saved, asked: Asked) -> int:
    """Compiles the network here, unless it is `saved`, and runs it there; the exit status."""
    name = args.device or device_of(args.target.removeprefix("auto:").split(",")[0])
    with remote(args.on, certificates_of(args.tls)) as place:
        device = place.device(name)
        given = arrays(args.input) if args.input else None
        graph, quantized = (None, None) if saved else imported_network(args, given)
        module, machine, _ = compiled_network(args, saved, graph)
        module = device.load(module)
        set_inputs(module, random_inputs(module.graph, args.seed) if given is None else given)
        begin = time.perf_counter()
        try:
            with progress_bar(f"{args.model.name} on {name} of {args.on}", 0, lambda: 0):
                runs = module.run()
        except (DeviceError, RemoteError) as error:
            print(f"lockstep: {error}", file=sys.stderr)
            return 1
    figures = report(module, runs, machine, time.perf_counter() - begin)
    figures |= {"model": args.model.title, "target": args.target, "on": args.on, "device": name,
                "simulator": f"{name} of {args.on}", "quantized": quantized,
                "seed": args.seed if given is None else None,
                "provenance": provenance(args, asked, machine)}
    put_results(args, module, figures)
    show(args, figures)
    return 0
