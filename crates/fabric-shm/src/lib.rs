//! Processes of one host: rings in one memfd, doorbells on futex, cross-memory attach where proven.
