"""Makes the top-level folder kernels/ importable as hpcai.kernels, whatever else is named `kernels` on the machine.

Only a checkout needs this module: an installation has the folder itself in its place, as setup.py maps it.
"""

from pathlib import Path

__path__ = [str(Path(__file__).resolve().parent.parent / "kernels")]
