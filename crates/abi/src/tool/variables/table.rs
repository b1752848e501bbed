//! Table of the performance variables.

use std::ffi::c_int;

use weft_mpi::counters::{COLLECTIVES, Counters};

use super::{Read, Variable};
use crate::generated::constants as k;
use crate::state;
use crate::tool::enumerations;

const LEVEL: c_int = k::MPI_T_PVAR_CLASS_LEVEL;
const SIZE: c_int = k::MPI_T_PVAR_CLASS_SIZE;
const HIGH: c_int = k::MPI_T_PVAR_CLASS_HIGHWATERMARK;
const COUNTER: c_int = k::MPI_T_PVAR_CLASS_COUNTER;
const AGGREGATE: c_int = k::MPI_T_PVAR_CLASS_AGGREGATE;
const TIMER: c_int = k::MPI_T_PVAR_CLASS_TIMER;

const fn variable(
    category: &'static str,
    name: &'static str,
    class: c_int,
    read: Read,
    description: &'static str,
) -> Variable {
    Variable {
        name,
        category,
        class,
        description,
        read,
    }
}

const fn counted(
    category: &'static str,
    name: &'static str,
    class: c_int,
    read: fn(&Counters) -> u64,
    description: &'static str,
) -> Variable {
    variable(category, name, class, Read::Counters(read), description)
}

const fn collective(place: usize, name: &'static str, description: &'static str) -> Variable {
    variable(
        "collectives",
        name,
        COUNTER,
        Read::Collective(place),
        description,
    )
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

fn sent_messages(all: &Counters) -> u64 {
    all.eager().messages.get()
        + all.eager_synchronous().messages.get()
        + all.rendezvous().messages.get()
}

fn sent_bytes(all: &Counters) -> u64 {
    all.eager().bytes.get() + all.eager_synchronous().bytes.get() + all.rendezvous().bytes.get()
}

/// All of them.
pub static VARIABLES: &[Variable] = &[
    variable(
        "process",
        "mpi_phase",
        k::MPI_T_PVAR_CLASS_STATE,
        Read::State(|| state::phase() as c_int, &enumerations::PHASE),
        "whether MPI_Init and MPI_Finalize were called",
    ),
    variable(
        "process",
        "processes",
        SIZE,
        Read::Process(|process| process.first().into()),
        "processes that the job has begun with",
    ),
    variable(
        "process",
        "process_slots",
        SIZE,
        Read::Process(|process| process.peers().into()),
        "processes that the job may have at a time, those included that are started later",
    ),
    // Messages.
    counted(
        "messages",
        "messages_sent",
        COUNTER,
        sent_messages,
        "messages sent, those of collectives included",
    ),
    counted(
        "messages",
        "bytes_sent",
        AGGREGATE,
        sent_bytes,
        "bytes of data of the messages sent",
    ),
    counted(
        "messages",
        "messages_received",
        COUNTER,
        Counters::received,
        "messages that a receive was found for",
    ),
    counted(
        "messages",
        "bytes_received",
        AGGREGATE,
        |all| all.bytes_received.get(),
        "bytes of data of the messages received",
    ),
    variable(
        "messages",
        "bytes_per_message",
        k::MPI_T_PVAR_CLASS_GENERIC,
        Read::Ratio(|all| ratio(sent_bytes(all), sent_messages(all))),
        "bytes of a message sent, on average",
    ),
    counted(
        "protocols",
        "eager_messages",
        COUNTER,
        |all| all.eager().messages.get(),
        "messages sent whose data went with the envelope",
    ),
    counted(
        "protocols",
        "eager_bytes",
        AGGREGATE,
        |all| all.eager().bytes.get(),
        "bytes of data of these",
    ),
    counted(
        "protocols",
        "eager_synchronous_messages",
        COUNTER,
        |all| all.eager_synchronous().messages.get(),
        "synchronous messages sent whose data went with the envelope",
    ),
    counted(
        "protocols",
        "eager_synchronous_bytes",
        AGGREGATE,
        |all| all.eager_synchronous().bytes.get(),
        "bytes of data of these",
    ),
    counted(
        "protocols",
        "rendezvous_messages",
        COUNTER,
        |all| all.rendezvous().messages.get(),
        "messages sent whose data the receiver pulls",
    ),
    counted(
        "protocols",
        "rendezvous_bytes",
        AGGREGATE,
        |all| all.rendezvous().bytes.get(),
        "bytes of data of these",
    ),
    counted(
        "protocols",
        "partition_messages",
        COUNTER,
        |all| all.pieces_sent.get(),
        "messages that carried partitions of partitioned sends",
    ),
    counted(
        "fabrics",
        "network_messages_sent",
        COUNTER,
        |all| all.sent_far.messages.get(),
        "messages sent over the network",
    ),
    counted(
        "fabrics",
        "network_bytes_sent",
        AGGREGATE,
        |all| all.sent_far.bytes.get(),
        "bytes of data of these",
    ),
    counted(
        "fabrics",
        "host_messages_sent",
        COUNTER,
        |all| sent_messages(all).saturating_sub(all.sent_far.messages.get()),
        "messages sent within the host, also to oneself",
    ),
    counted(
        "fabrics",
        "host_bytes_sent",
        AGGREGATE,
        |all| sent_bytes(all).saturating_sub(all.sent_far.bytes.get()),
        "bytes of data of these",
    ),
    counted(
        "fabrics",
        "messages_held_back",
        COUNTER,
        |all| all.held_back.get(),
        "messages that the fabric had no room for at once, or that waited behind such",
    ),
    variable(
        "fabrics",
        "messages_waiting_to_leave",
        LEVEL,
        Read::Process(|process| process.held_back() as u64),
        "messages that wait for room of the fabric; counted when asked",
    ),
    // Queues.
    counted(
        "queues",
        "unexpected_messages",
        LEVEL,
        Counters::unexpected_now,
        "messages that wait for their receive",
    ),
    counted(
        "queues",
        "unexpected_messages_most",
        HIGH,
        |all| all.unexpected_most.get(),
        "largest number of messages that have waited since MPI_Init",
    ),
    counted(
        "queues",
        "unexpected_bytes",
        LEVEL,
        Counters::unexpected_bytes_now,
        "bytes of data of waiting messages that are held here",
    ),
    counted(
        "queues",
        "unexpected_bytes_most",
        HIGH,
        |all| all.unexpected_bytes_most.get(),
        "largest number of such bytes since MPI_Init",
    ),
    counted(
        "queues",
        "unexpected_arrivals",
        COUNTER,
        |all| all.unexpected.messages.get(),
        "messages that came before their receive",
    ),
    counted(
        "queues",
        "unexpected_arrivals_bytes",
        AGGREGATE,
        |all| all.unexpected.bytes.get(),
        "bytes of data that came before their receive, and were copied twice",
    ),
    counted(
        "queues",
        "posted_receives",
        LEVEL,
        Counters::posted_now,
        "receives that wait for their message",
    ),
    counted(
        "queues",
        "posted_receives_most",
        HIGH,
        Counters::posted_most,
        "largest number of receives that have waited since MPI_Init",
    ),
    counted(
        "queues",
        "receives_posted",
        COUNTER,
        Counters::posted,
        "receives that found no message and had to wait",
    ),
    counted(
        "queues",
        "matched_posted",
        COUNTER,
        Counters::matched_posted,
        "messages that met a waiting receive",
    ),
    counted(
        "queues",
        "matched_unexpected",
        COUNTER,
        |all| all.matched_unexpected.get(),
        "receives that met a waiting message",
    ),
    variable(
        "queues",
        "matched_posted_share",
        k::MPI_T_PVAR_CLASS_PERCENTAGE,
        Read::Ratio(|all| {
            let posted = all.matched_posted();
            ratio(posted, posted + all.matched_unexpected.get())
        }),
        "share of the messages that met a waiting receive",
    ),
    // Rendezvous.
    counted(
        "rendezvous",
        "pulls",
        COUNTER,
        |all| all.pulls_begun.get(),
        "transfers that this rank began to pull as the receiver",
    ),
    counted(
        "rendezvous",
        "pulls_under_way",
        LEVEL,
        Counters::pulls_now,
        "transfers that this rank pulls now",
    ),
    counted(
        "rendezvous",
        "pulls_put_off",
        COUNTER,
        |all| all.pulls_refused.get(),
        "times that a transfer was put off, as the fabric had no room to ask for it",
    ),
    // Requests.
    variable(
        "requests",
        "requests_live",
        LEVEL,
        Read::Process(|process| process.live_requests() as u64),
        "requests that were begun and not taken, persistent ones included; counted when asked",
    ),
    variable(
        "requests",
        "request_slots",
        HIGH,
        Read::Process(|process| process.request_slots() as u64),
        "largest number of requests that were live at once; counted when asked",
    ),
    // Waiting.
    counted(
        "waiting",
        "waits",
        COUNTER,
        |all| all.waits.get(),
        "times that a thread drove progress to wait, as what it wanted was not there",
    ),
    counted(
        "waiting",
        "sleeps",
        COUNTER,
        |all| all.sleeps.get(),
        "times that a waiting thread slept until the fabric woke it",
    ),
    counted(
        "waiting",
        "waits_parked",
        COUNTER,
        |all| all.waits_parked.get(),
        "times that a thread slept while another one drove progress",
    ),
    variable(
        "waiting",
        "time_slept",
        TIMER,
        Read::Time(|all| all.slept.get()),
        "seconds slept until the fabric woke a waiting thread",
    ),
    variable(
        "waiting",
        "time_parked",
        TIMER,
        Read::Time(|all| all.parked.get()),
        "seconds slept, of all threads, while another one drove progress",
    ),
    // Collectives.
    counted(
        "collectives",
        "collectives",
        COUNTER,
        |all| all.collectives_begun.get(),
        "collectives begun, those within other calls included",
    ),
    counted(
        "collectives",
        "collectives_under_way",
        LEVEL,
        Counters::collectives_now,
        "collectives begun and not ended",
    ),
    counted(
        "collectives",
        "collectives_failed",
        COUNTER,
        |all| all.collectives_failed.get(),
        "collectives that ended with an error",
    ),
    collective(
        0,
        "barrier",
        "times that MPI_Barrier was begun, in any of its forms",
    ),
    collective(
        1,
        "bcast",
        "times that MPI_Bcast was begun, in any of its forms",
    ),
    collective(
        2,
        "gather",
        "times that MPI_Gather was begun, in any of its forms",
    ),
    collective(
        3,
        "gatherv",
        "times that MPI_Gatherv was begun, in any of its forms",
    ),
    collective(
        4,
        "scatter",
        "times that MPI_Scatter was begun, in any of its forms",
    ),
    collective(
        5,
        "scatterv",
        "times that MPI_Scatterv was begun, in any of its forms",
    ),
    collective(
        6,
        "allgather",
        "times that MPI_Allgather was begun, in any of its forms",
    ),
    collective(
        7,
        "allgatherv",
        "times that MPI_Allgatherv was begun, in any of its forms",
    ),
    collective(
        8,
        "alltoall",
        "times that MPI_Alltoall was begun, in any of its forms",
    ),
    collective(
        9,
        "alltoallv",
        "times that MPI_Alltoallv was begun, in any of its forms",
    ),
    collective(
        10,
        "alltoallw",
        "times that MPI_Alltoallw was begun, in any of its forms",
    ),
    collective(
        11,
        "reduce",
        "times that MPI_Reduce was begun, in any of its forms",
    ),
    collective(
        12,
        "allreduce",
        "times that MPI_Allreduce was begun, in any of its forms",
    ),
    collective(
        13,
        "reduce_scatter",
        "times that MPI_Reduce_scatter was begun, in any of its forms",
    ),
    collective(
        14,
        "reduce_scatter_block",
        "times that MPI_Reduce_scatter_block was begun, in any of its forms",
    ),
    collective(
        15,
        "scan",
        "times that MPI_Scan was begun, in any of its forms",
    ),
    collective(
        16,
        "exscan",
        "times that MPI_Exscan was begun, in any of its forms",
    ),
    collective(
        COLLECTIVES.len(),
        "other_collectives",
        "collectives of other names: of neighbours, and what other calls agree by",
    ),
    // Windows.
    counted(
        "windows",
        "one_sided_direct",
        COUNTER,
        |all| all.one_sided_direct.get(),
        "one-sided operations that were loads, stores and atomic instructions of this process; a window tells them now and then, at the latest at a fence or when it is freed",
    ),
    counted(
        "windows",
        "one_sided_messages",
        COUNTER,
        |all| all.one_sided_messages.get(),
        "messages of one-sided operations that were sent to their targets",
    ),
    counted(
        "windows",
        "one_sided_portal",
        COUNTER,
        |all| all.one_sided_portal.get(),
        "one-sided operations whose data the fabric moved",
    ),
    counted(
        "windows",
        "one_sided_arrived",
        COUNTER,
        |all| all.one_sided_arrived.get(),
        "messages of one-sided communication that came: operations of others, answers to own ones, synchronisation",
    ),
    // Communicators.
    variable(
        "communicators",
        "comm_collectives",
        COUNTER,
        Read::Comm(|comm| comm.collectives().into()),
        "collectives begun on the communicator",
    ),
    variable(
        "communicators",
        "comm_unexpected_messages",
        LEVEL,
        Read::Comm(|comm| comm.waiting().messages),
        "messages of the communicator that wait for their receive; counted when asked",
    ),
    variable(
        "communicators",
        "comm_unexpected_bytes",
        LEVEL,
        Read::Comm(|comm| comm.waiting().bytes),
        "bytes of data of these that are held here; counted when asked",
    ),
    variable(
        "communicators",
        "comm_posted_receives",
        LEVEL,
        Read::Comm(|comm| comm.waiting().receives),
        "receives of the communicator that wait for their message; counted when asked",
    ),
    // Faults.
    counted(
        "faults",
        "processes_lost",
        LEVEL,
        |all| all.lost.get(),
        "processes of the job that are lost",
    ),
    counted(
        "faults",
        "messages_refused",
        COUNTER,
        |all| all.refused.get(),
        "messages and answers of other processes that nobody could use",
    ),
];
