//! Callbacks: functions of the program that receive handles, error codes and statuses.
//!
//! Functions with an extra state (of attributes, requests, data representations, events) are wrapped: the extra state becomes
//! the address of a record with the function and the state of the program. Functions without one (of operations and error
//! handlers) get a *stub*, a few instructions whose address identifies the function:
//!
//! ```text
//!   libmpi_abi ──► stub 3 ──jmp──► a function here, with the address of the stub as one more argument
//!                                        │  finds the program's function 3, translates the arguments
//!                                        ▼
//!                                  the program's function
//! ```
//!
//! A function gets its stub once, and keeps it: an operation may still be in use after it was freed.

pub mod attribute;
pub mod errhandler;
pub mod op;
pub mod stub;
pub mod wrapped;
