//! Statements of an entry point before and after its call for the checks of requests, buffers and sources,
//! which `mpiexec --check` switches on.

use std::fmt::Write;

use super::forms;
use super::table::{Function, Parameter};

/// Statements around a call.
#[derive(Default)]
pub struct Watch {
    pub before: String,
    /// After the call, whose outcome is `code`.
    pub after: String,
}

/// The statements for a function.
pub fn of(group: &str, function: &Function, name: &str) -> Watch {
    let mut watch = Watch::default();
    watch.source(group, function, name);
    let uses = if group == "p2p" {
        buffers(function)
    } else {
        Vec::new()
    };
    let uses = format!("&[{}]", uses.join(", "));
    if let Some(request) = request(function, "out", false) {
        let _ = writeln!(
            watch.after,
            "if check::is_full() {{\n// SAFETY: as above, until the request has ended.\n\
             unsafe {{ check::under_way::begun(\"{name}\", code, {request}, {uses}) }};\n}}"
        );
    } else if uses != "&[]" {
        let _ = writeln!(
            watch.before,
            "if check::is_full() {{\n// SAFETY: the addresses come from the caller, which keeps the promises of the C binding (`crate::check`).\n\
             unsafe {{ check::under_way::used(\"{name}\", {uses}) }};\n}}"
        );
    }
    watch.requests(function, name);
    watch
}

impl Watch {
    /// Receives and probes that may be from any source.
    fn source(&mut self, group: &str, function: &Function, name: &str) {
        let by = |check: &str| {
            let mut parameters = function.parameters.iter();
            let found = parameters.find(|one| one.check.as_deref() == Some(check))?;
            found.widest().map(|declaration| declaration.name)
        };
        if let ("p2p", Some(source), Some(tag)) = (group, by("source"), by("receive_tag")) {
            let _ = writeln!(
                self.before,
                "if check::is_full() {{\ncheck::races::look(\"{name}\", {source}, {tag}, comm);\n}}"
            );
        }
    }

    /// Calls that may complete or start requests.
    fn requests(&mut self, function: &Function, name: &str) {
        let one = request(function, "inout", false).map(|request| (request, "1".to_owned()));
        let several = request(function, "inout", true).and_then(|request| {
            let mut parameters = function.parameters.iter();
            let list = parameters.find(|one| one.kind == "REQUEST")?;
            Some((request, list.length.clone()?))
        });
        if let Some((request, count)) = one.or(several) {
            let _ = writeln!(
                self.before,
                "let watched = check::is_full().then(|| {{\n\
                 // SAFETY: the array has so many handles, by the promises of the C binding (`crate::check`).\n\
                 unsafe {{ check::under_way::Watched::before(\"{name}\", {request}, {count}) }}\n}});"
            );
            self.after
                .push_str("if let Some(watched) = watched {\nwatched.after(code);\n}\n");
        }
    }
}

/// The name of a parameter that is a request, or a list of them.
fn request(function: &Function, direction: &str, list: bool) -> Option<String> {
    let mut parameters = function.parameters.iter();
    let is = |one: &&Parameter| one.kind == "REQUEST" && one.direction == direction;
    let declaration = parameters.find(is)?.widest()?;
    (declaration.array == list && (list || declaration.stars == 1)).then_some(declaration.name)
}

/// The buffers of a function of point-to-point communication.
fn buffers(function: &Function) -> Vec<String> {
    let parameters = &function.parameters;
    let places = 0..parameters.len();
    places
        .filter_map(|place| {
            let [buffer, count, datatype] = forms::triple(&parameters[place..])?;
            let sends = parameters[place].widest()?.constant;
            let what = if sends { "sends" } else { "receives" };
            Some(format!(
                "check::under_way::BufferUse::{what}({buffer}, {count}.into(), {datatype})"
            ))
        })
        .collect()
}
