//! The face of Weft: the library and the command.
