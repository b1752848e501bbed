//! Tests that every fabric passes.
