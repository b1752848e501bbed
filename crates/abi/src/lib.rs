//! The MPI 5 standard ABI: generated C entry points over the engine.
