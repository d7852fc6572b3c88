"""The real program on a node that simulates one GPU, whatever the number of ranks."""

import sys
from unittest.mock import patch

from hpcai.main import main

if __name__ == "__main__":
    with patch("hpcai.machine.device.visible", lambda: ("GPU-pretended",)):
        sys.exit(main(sys.argv[1:]))
