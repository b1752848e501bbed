# A recipe for Spack 1.0 and later, in the tree of Weft: spack repo add packaging/spack/spack_repo/weft, then spack install weft
from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class Weft(Package):
    """Message passing between threads, processes and machines; MPI 5 by the standard ABI."""

    homepage = "https://example.invalid/weft"
    git = "file:///path/to/weft"  # the tree that is to be built

    license("MIT OR Apache-2.0")
    version("main", branch="main")

    provides("mpi@:5.0")
    depends_on("c", type="build")
    depends_on("rust@1.95:", type="build")
    depends_on("hwloc@2:", type="run")  # opened at run time; not needed

    def install(self, spec, prefix):
        cargo = which("cargo", required=True)
        cargo("run", "--release", "--package", "xtask", "--", "dist", "--prefix", prefix)

    @property
    def libs(self):
        return find_libraries("libmpi_abi", root=self.prefix.lib, shared=True)

    def setup_run_environment(self, env):
        env.set("MPICC", join_path(self.prefix.bin, "mpicc"))
        env.set("MPICXX", join_path(self.prefix.bin, "mpicxx"))
        env.set("MPIF90", join_path(self.prefix.bin, "mpif90"))

    def setup_dependent_build_environment(self, env, dependent_spec):
        self.setup_run_environment(env)

    def setup_dependent_package(self, module, dependent_spec):
        # What recipes of others ask for: spec["mpi"].mpicc.
        self.spec.mpicc = join_path(self.prefix.bin, "mpicc")
        self.spec.mpicxx = join_path(self.prefix.bin, "mpicxx")
        self.spec.mpifc = join_path(self.prefix.bin, "mpifort")
        self.spec.mpif77 = join_path(self.prefix.bin, "mpif77")
