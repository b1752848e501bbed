//! The matching engine: (context, source, tag) to posted or unexpected, in MPI order.
