//! The command `weft`; also answers to `mpiexec`, `mpirun`, `mpicc` and `mpicxx` by its own name.
fn main() {}
