"""Prints the path of the rules by which mlperf_logging's compliance checker accepts the logs of this program."""

from hpcai.mllog import RULES

if __name__ == "__main__":
    print(RULES.absolute())
