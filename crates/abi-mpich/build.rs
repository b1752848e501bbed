//! How `libmpi.so.12` is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for argument in [
        // The name under which programs look for the library.
        "-Wl,-soname,libmpi.so.12",
        // `MPI_X` jumps to our own `PMPI_X`, whichever other library defines one.
        "-Wl,-Bsymbolic-functions",
        // The library that this one loads stays loaded as well.
        "-Wl,-z,nodelete",
        // `libmpi_abi.so.1` is in the same folder as this library.
        "-Wl,-rpath,$ORIGIN",
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}
