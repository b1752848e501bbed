//! The launcher as its users see it: command lines in, output, exit codes and nothing left behind.

mod bootstrap;
mod ends;
mod failures;
mod harness;
mod hostile_agents;
mod hosts;
mod hydra;
mod joined;
mod lines;
mod mpi;
mod network;
mod network_job;
mod output;
mod services;
