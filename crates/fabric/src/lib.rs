//! The fabric contract: mailbox, portal, sync; and the conformance suite that every fabric passes.
