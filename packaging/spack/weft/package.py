# A recipe for Spack: spack repo add packaging/spack (in the tree of Weft), then spack install weft
from spack.package import *


class Weft(Package):
    """Message passing between threads, processes and machines; MPI 5 by the standard ABI."""

    homepage = "https://example.invalid/weft"
    git = "file:///path/to/weft"  # the tree that is to be built

    license("MIT OR Apache-2.0")
    version("main", branch="main")

    provides("mpi@5")
    depends_on("c", type="build")
    depends_on("rust@1.95:", type="build")
    depends_on("hwloc@2", type="run")  # opened at run time; not needed

    def install(self, spec, prefix):
        cargo = which("cargo", required=True)
        cargo("run", "--release", "--package", "xtask", "--", "dist", "--prefix", prefix)

    def setup_dependent_build_environment(self, env, dependent_spec):
        env.set("MPICC", join_path(self.prefix.bin, "mpicc"))
        env.set("MPICXX", join_path(self.prefix.bin, "mpicxx"))
