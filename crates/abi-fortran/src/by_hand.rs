//! Procedures for which the tables do not contain enough: `by_hand` in `tables/fortran.toml` lists them, each
//! with the reason.

#![allow(missing_docs, clippy::missing_safety_doc, clippy::too_many_arguments)]

pub mod attributes;
pub mod contents;
pub mod detach;
pub mod own;
pub mod removed;
pub mod representations;
pub mod requests;
pub mod spawn;
pub mod start;
pub mod texts;
