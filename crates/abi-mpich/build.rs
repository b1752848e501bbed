//! How the library of a foreign ABI is linked: `libmpi.so.12`, or `libmpi.so.40` (package `weft-abi-openmpi`).

fn main() {
    println!("cargo:rerun-if-changed=../abi-mpich/build.rs");
    let name = match std::env::var_os("CARGO_FEATURE_OPENMPI") {
        None => "libmpi.so.12",
        Some(_) => "libmpi.so.40",
    };
    for argument in [
        // The name under which programs look for the library.
        &format!("-Wl,-soname,{name}"),
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
