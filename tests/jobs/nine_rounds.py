"""The real program with a random number generator of nine rounds in place of ten."""

import sys

from hpcai.data import philox
from hpcai.main import main

if __name__ == "__main__":
    philox._ROUNDS = 9
    sys.exit(main(sys.argv[1:]))
