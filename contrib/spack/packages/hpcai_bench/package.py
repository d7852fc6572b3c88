"""Spack package of hpcai-bench, built from a checkout (docs/INSTALL.md)."""

from spack.package import depends_on, license, variant, version
from spack_repo.builtin.build_systems.python import PythonPackage


class HpcaiBench(PythonPackage):
    """A benchmark for AI machines: ensembles trained on an MPI grid, reported as LINPACK reports."""

    license("Apache-2.0", checked_by="the authors")

    # The sources are those of a checkout: spack dev-build, or spack develop --path.
    version("0.1.0")

    variant("cuda", default=False, description="torch for NVIDIA GPUs, and kernels compiled by CuPy")
    variant("plots", default=True, description="curves, rooflines, and the page of the lists")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-setuptools@64:", type="build")

    depends_on("mpi")
    depends_on("py-mpi4py@4:", type=("build", "run"))
    depends_on("py-numpy@2:", type=("build", "run"))
    depends_on("py-torch@2.11:2", type=("build", "run"))
    depends_on("py-torch~cuda", when="~cuda", type=("build", "run"))
    depends_on("py-torch+cuda+nccl", when="+cuda", type=("build", "run"))
    depends_on("py-h5py@3.11:~mpi", type=("build", "run"))
    depends_on("py-numba@0.61:", type=("build", "run"))
    depends_on("py-msgspec@0.22:", type=("build", "run"))
    depends_on("py-cupy@13.6:", when="+cuda", type=("build", "run"))
    depends_on("py-matplotlib@3.8:", when="+plots", type=("build", "run"))
    depends_on("py-jinja2@3.1:", when="+plots", type=("build", "run"))
