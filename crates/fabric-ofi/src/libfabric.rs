//! libfabric's library, opened at run time: the only place of this crate that calls it.
//!
//! ```text
//!   layout         its structures and tables of functions, as far as they are used
//!   numbers        its numbers
//!   library        the library itself: the functions that it exports
//!   dispositions   handlers of signals, which loading it must not change
//!   infos          what it offers: a list of descriptions of endpoints
//!   device         one endpoint, of …
//!     objects      … what the library has opened for it
//!     slots        … buffers and contexts of what is under way
//!     completions  … what the queue has told of
//!     wait         … what it has somebody sleep on
//!     registration … memory that the network card may reach
//!     mask         … what of it is left unused
//!   bounce         memory that a transfer reads into first
//! ```

pub mod bounce;
mod completions;
pub mod device;
mod dispositions;
pub mod infos;
mod layout;
pub mod library;
pub mod mask;
mod numbers;
mod objects;
pub mod registration;
pub mod slots;
pub mod wait;
