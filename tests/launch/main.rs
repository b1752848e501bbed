//! The launcher from its users' view: command lines, output, exit codes, and no process or file left behind.

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
