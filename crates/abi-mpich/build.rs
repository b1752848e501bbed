//! How `libmpi.so.12` is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for argument in [
        // The name that programs ask for.
        "-Wl,-soname,libmpi.so.12",
        // `MPI_X` jumps to our own `PMPI_X`, whoever else defines one.
        "-Wl,-Bsymbolic-functions",
        // The library that it loads stays, too.
        "-Wl,-z,nodelete",
        // That library stands beside this one.
        "-Wl,-rpath,$ORIGIN",
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}
