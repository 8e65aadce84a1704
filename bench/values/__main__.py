"""Do networks of random operators have right values?"""

import sys
from bench.values.search import main

if __name__ == "__main__":
    sys.exit(main())
