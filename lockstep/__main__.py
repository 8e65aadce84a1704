"""``python -m lockstep``: the command without its entry point."""

import sys

from lockstep.cli import main

sys.exit(main())
