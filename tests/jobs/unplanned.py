"""The real program, which refuses no test for the memory that it needs."""

import sys

from planting import replaced

from hpcai.main import main
from hpcai.monitoring import memory_usage

if __name__ == "__main__":
    with replaced(memory_usage, "refuse", lambda genuine: lambda *needs: None):
        sys.exit(main(sys.argv[1:]))
