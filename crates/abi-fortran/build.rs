//! How `libmpi_fortran.so.1` is linked: it needs `libmpi_abi.so.1`, which cargo builds on its own. In its place stands a library
//! with that name and nothing in it.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo says where"));
    let source = folder.join("empty.c");
    std::fs::write(&source, "").expect("cargo's folder can be written");
    let made = Command::new("cc")
        .args(["-shared", "-nostdlib", "-Wl,-soname,libmpi_abi.so.1", "-o"])
        .arg(folder.join("libmpi_abi.so"))
        .arg(&source)
        .status()
        .expect("cc can be started");
    assert!(made.success(), "cc cannot link a shared library: {made}");
    let path = format!("-L{}", folder.display());
    for argument in [
        // The name that programs ask for.
        "-Wl,-soname,libmpi_fortran.so.1",
        // Names of one procedure jump to our own code, whoever else defines one.
        "-Wl,-Bsymbolic-functions",
        &path,
        "-Wl,--no-as-needed,-lmpi_abi,--as-needed",
        // That library stands beside this one.
        "-Wl,-rpath,$ORIGIN",
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}
