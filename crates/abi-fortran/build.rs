//! How `libmpi_fortran.so.1` is linked: it needs `libmpi_abi.so.1`, which cargo builds on its own. An empty library of that name
//! is linked in its place. The same holds for `libmpifort.so.12`, which needs `libmpi.so.12`,
//! and for `libmpi_mpifh.so.40`, which needs `libmpi.so.40`.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=../abi-fortran/build.rs");
    let has = |feature: &str| std::env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    let (name, needed) = match (has("MPICH"), has("OPENMPI")) {
        (false, false) => ("libmpi_fortran.so.1", "libmpi_abi.so.1"),
        (true, _) => ("libmpifort.so.12", "libmpi.so.12"),
        (false, true) => ("libmpi_mpifh.so.40", "libmpi.so.40"),
    };
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo says where"));
    let source = folder.join("empty.c");
    std::fs::write(&source, "").expect("cargo's folder can be written");
    let made = Command::new("cc")
        .args(["-shared", "-nostdlib"])
        .args([&format!("-Wl,-soname,{needed}"), "-o"])
        .arg(folder.join("libneeded.so"))
        .arg(&source)
        .status()
        .expect("cc can be started");
    assert!(made.success(), "cc cannot link a shared library: {made}");
    let path = format!("-L{}", folder.display());
    for argument in [
        // The name under which programs look for the library.
        &format!("-Wl,-soname,{name}"),
        // Names of one procedure jump to our own code, whichever other library defines one.
        "-Wl,-Bsymbolic-functions",
        &path,
        "-Wl,--no-as-needed,-lneeded,--as-needed",
        // The needed library is in the same folder as this one.
        "-Wl,-rpath,$ORIGIN",
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}
