//! Procedures for which the tables do not contain enough: `by_hand` in `tables/fortran.toml` lists them, each
//! with the reason.

#![allow(missing_docs, clippy::missing_safety_doc, clippy::too_many_arguments)]

mod attributes;
mod contents;
mod detach;
mod own;
mod removed;
mod representations;
mod requests;
mod spawn;
mod start;
mod texts;
