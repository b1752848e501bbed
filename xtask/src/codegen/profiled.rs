//! Calls that a profile records: for each entry point, what it does with messages, and which of its arguments
//! describe them.

use std::fmt::Write;

use super::NOTICE;
use super::calls::Calls;
use super::table::{Form, Function, Tables};

/// Groups with calls in which a program spends no time: tools, constants of the ABI, conversions of handles.
const LEFT_OUT: [&str; 4] = ["tool", "abi", "convert", "misc"];

/// The tables of calls.
pub fn file(tables: &Tables, calls: &Calls) -> String {
    let (mut rows, mut continued) = (String::new(), String::new());
    let (mut count, mut continuations) = (0, 0);
    for (group, functions) in &tables.groups {
        if LEFT_OUT.contains(&group.as_str()) {
            continue;
        }
        let ordinary = functions
            .iter()
            .filter(|function| function.returns.is_none());
        for function in ordinary {
            for form in function.forms() {
                let _ = writeln!(rows, "{}", row(group, function, form));
                count += 1;
                if function.at_once && calls.has(group, function) {
                    let name = function.name_of(form);
                    let _ = writeln!(
                        continued,
                        "(\"{name}\", Code(super::{group}::full_{name} as *const ())),"
                    );
                    continuations += 1;
                }
            }
        }
    }
    format!(
        "//! {NOTICE}\n//!\n//! Calls that a profile records, and their relevant arguments.\n\n\
         use crate::profile::call::{{ArgumentIndex, Call, CallKind, Code}};\n\n\
         /// All of them.\npub static CALLS: [Call; {count}] = [\n{rows}];\n\n\
         /// The calls that try a short path first, and where they go on: in a stack that function appears instead of the entry point.\n\
         pub static CONTINUED: [(&str, Code); {continuations}] = [\n{continued}];\n"
    )
}

/// What a call does with messages.
fn kind(group: &str, function: &Function) -> &'static str {
    let name = function.name.as_str();
    match name {
        "MPI_Send"
        | "MPI_Ssend"
        | "MPI_Bsend"
        | "MPI_Rsend"
        | "MPI_Isend"
        | "MPI_Issend"
        | "MPI_Ibsend"
        | "MPI_Irsend"
        | "MPI_Isendrecv"
        | "MPI_Isendrecv_replace" => "Send",
        "MPI_Recv" | "MPI_Mrecv" => "Receive",
        "MPI_Irecv" | "MPI_Imrecv" => "BeginReceive",
        "MPI_Start" => "Start",
        "MPI_Sendrecv" | "MPI_Sendrecv_replace" => "Exchange",
        _ if name.starts_with("MPI_Wait") || name.starts_with("MPI_Test") => "Complete",
        _ if group == "coll" || group == "coll_nonblocking" => "Collective",
        _ => "Other",
    }
}

fn row(group: &str, function: &Function, form: Form) -> String {
    let name = function.name_of(form);
    let declared: Vec<_> = function
        .parameters
        .iter()
        .filter_map(|parameter| Some((parameter, parameter.declaration(form)?)))
        .collect();
    let find = |fits: &dyn Fn(&str, &str, bool, bool) -> bool| {
        declared.iter().position(|(parameter, declaration)| {
            let single = declaration.stars == 1 && !declaration.array;
            fits(
                &parameter.kind,
                &declaration.name,
                declaration.by_value(),
                single,
            )
        })
    };
    // If each rank passes the count of what it receives, the other count need not be set.
    let receives = function.name.to_lowercase().contains("scatter");
    let count = find(&|kind, name, by_value, _| {
        kind.contains("XFER_NUM_ELEM") && by_value && (!receives || name.starts_with("recv"))
    });
    let datatype = count.and_then(|count| {
        let mut rest = declared.iter().enumerate().skip(count);
        let found = rest.find(|(_, (parameter, _))| parameter.kind == "DATATYPE");
        found.map(|(place, _)| place)
    });
    let counts = [
        count.filter(|_| datatype.is_some()),
        datatype,
        find(&|kind, name, by_value, _| kind == "RANK" && by_value && name == "dest"),
        find(&|kind, name, by_value, _| kind == "RANK" && by_value && name == "source"),
        find(&|kind, name, by_value, _| kind == "TAG" && by_value && name != "recvtag"),
        find(&|kind, name, by_value, _| kind == "TAG" && by_value && name == "recvtag"),
        find(&|kind, _, by_value, _| kind == "COMMUNICATOR" && by_value),
        find(&|kind, _, _, single| kind == "REQUEST" && single),
        find(&|kind, _, by_value, single| kind == "REQUEST" && !by_value && !single),
        find(&|kind, _, by_value, _| kind.starts_with("ARRAY_LENGTH") && by_value),
        find(&|kind, _, _, single| kind == "STATUS" && single),
        find(&|kind, _, by_value, single| kind == "STATUS" && !by_value && !single),
    ];
    let fields = [
        "count",
        "datatype",
        "dest",
        "source",
        "tag",
        "receive_tag",
        "comm",
        "request",
        "requests",
        "length",
        "status",
        "statuses",
    ];
    let mut set = String::new();
    for (field, place) in fields.iter().zip(counts) {
        if let Some(place) = place {
            let _ = write!(set, "{field}: ArgumentIndex::at({place}), ");
        }
    }
    let long = form == Form::Large;
    format!(
        "Call {{ {set} ..Call::new(\"{name}\", &super::{group}::{name}::TARGET, super::{group}::P{name} as *const (), {}, CallKind::{}, {long}) }},",
        declared.len(),
        kind(group, function),
    )
}
