//! How `libmpi_abi.so` is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for argument in [
        // The name that programs are linked with.
        "-Wl,-soname,libmpi_abi.so.1",
        // `MPI_X` jumps to our own `PMPI_X`, even if another library defines one.
        "-Wl,-Bsymbolic-functions",
        // Threads and exit handlers of ours may outlive a `dlclose`.
        "-Wl,-z,nodelete",
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}
