"""Writes a network of `lockstep.testing` as an ONNX file.

    python examples/zoo.py NAME [--int8] [--size N] [--batch N] [--seed N] -o FILE
"""

import argparse
import sys
from collections.abc import Sequence

from compiler.errors import RequestError
from compiler.files import whole_file
from lockstep.cli import Parser
from lockstep.printing.progress import progress_bar
from lockstep.options.paths import output_file
from lockstep.testing import zoo
from lockstep.testing.zoo import *  # noqa: F403  its names are found here as well
from lockstep.testing.zoo import LARGEST, NETWORKS, SMALLEST, build, network


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0, or 2 after one line on what is wrong with the request."""
    try:
        args = _arguments(argv)
        net, done = network(args.name, args.size), [0]
        with whole_file(args.output) as file, \
                progress_bar(args.name, sum(net.macs()), lambda: sum(done)):
            model = build(args.name, args.size, args.batch, args.seed, args.int8, done.append)
            data = model.SerializeToString(deterministic=True)
            file.write(data)
    except RequestError as error:
        print(f"zoo: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    shape = "x".join(map(str, net.whole_shape(net.source, args.batch)))
    print(f"{args.output}: {args.name} {'int8' if args.int8 else 'float32'}, {shape}, "
          f"{sum(net.macs()) / 1e9:.3f} G multiply-accumulates an image, "
          f"{net.count('weight', 'recurrent', 'bias') / 1e6:.2f} M parameters, "
          f"{len(data) / 1e6:.1f} MB")
    return 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(prog="zoo", description=f"{__doc__}\n{zoo.__doc__}",
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", metavar="NAME", choices=list(NETWORKS), help=", ".join(NETWORKS))
    parser.add_argument("--int8", action="store_true", help="quantized, in the QDQ form")
    parser.add_argument("--size", type=int, metavar="N",
                        help=f"image height and width, tokens or frames, {SMALLEST} to {LARGEST} "
                             "(default 224, of transformers 64, keywords 49, lstm 32)")
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="images (default 1)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")
    parser.add_argument("-o", dest="output", type=output_file, required=True, metavar="FILE",
                        help="the ONNX file to write")
    args = parser.parse_args(argv)
    for option, low, high in (("batch", 1, 1024), ("seed", 0, 2**63 - 1)):
        value = getattr(args, option)
        if not low <= value <= high:
            raise RequestError(f"--{option} must be {low} to {high}, not {value}")
    return args


if __name__ == "__main__":
    sys.exit(main())
