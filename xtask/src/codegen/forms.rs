//! Bodies of entry points: how each parameter is passed to the hand-written function, with one rule for each
//! kind.
//!
//! A rule is a line of Rust that checks and decodes, and the expression that is passed on. A buffer with its
//! count and datatype is passed on as one argument. The buffers of a collective are significant only at some
//! ranks, so they are passed on unchecked and checked later; so is a list of blocks with its counts and
//! displacements.

use anyhow::{Result, bail};

use super::declaration::Declaration;
use super::table::{Form, Function, Parameter};

/// Groups whose calls receive the form, because the standard makes it visible later.
const TOLD: [&str; 2] = ["datatype", "op"];

/// Groups whose calls check their buffers themselves: they accept elements as they are in memory.
const LAZY: [&str; 2] = ["op", "file"];

/// What an entry point does before it calls.
#[derive(Default)]
pub struct Body {
    /// Statements, in order.
    pub lines: Vec<String>,
    /// Arguments of the hand-written function.
    pub arguments: Vec<String>,
}

/// The body of one form of a function.
pub fn body(group: &str, function: &Function, form: Form) -> Result<Body> {
    let mut out = Body::default();
    let parameters = &function.parameters;
    // Whether the call itself checks its buffers.
    let lazy = function.form_of.is_some()
        || LAZY.contains(&group)
        || function.call().ends_with("pack_external")
        // One operation ignores its origin.
        || function.call().ends_with("get_accumulate");
    let handed_on = function.call_parameters().len();
    // Communicators come first, because ranks and roots are checked against them.
    for parameter in parameters
        .iter()
        .filter(|parameter| is_communicator(parameter))
    {
        let name = parameter
            .widest()
            .map(|declaration| declaration.name)
            .unwrap_or_default();
        out.lines.push(format!(
            "let {name} = check::communicator({name}, \"{name}\")?;"
        ));
    }
    let mut place = 0;
    while place < parameters.len() {
        if let Some(names) = triple(&parameters[place..]) {
            let constant = parameters[place].widest().is_some_and(|one| one.constant);
            out.buffer(&names, constant, lazy, peer(&parameters[place + 3..]));
            place += 3;
            continue;
        }
        if let Some(blocks) = Blocks::find(&parameters[place..]).filter(|_| lazy) {
            out.blocks(&blocks);
            place += 4;
            continue;
        }
        let parameter = &parameters[place];
        let is_handed_on = place < handed_on;
        place += 1;
        if is_communicator(parameter) {
            out.arguments.push(
                parameter
                    .widest()
                    .map(|declaration| declaration.name)
                    .unwrap_or_default(),
            );
            continue;
        }
        let Some(declaration) = parameter.declaration(form) else {
            if parameter.only_large() {
                let by_value = parameter
                    .widest()
                    .is_some_and(|declaration| declaration.by_value());
                let array = parameter
                    .widest()
                    .is_some_and(|declaration| declaration.array);
                out.arguments.push(
                    if by_value {
                        "0"
                    } else if array {
                        "&mut []"
                    } else {
                        "None"
                    }
                    .to_owned(),
                );
            }
            continue;
        };
        let Rule { check, argument } = rule(group, function, parameter, &declaration, lazy)?;
        if let Some(check) = check {
            out.lines
                .push(format!("let {} = {check};", declaration.name));
        }
        if !is_handed_on {
            continue;
        }
        if lazy && parameter.kind == "BUFFER" && has(function, "OPERATION") {
            let name = &declaration.name;
            let pointer = pointer(name, declaration.constant);
            out.arguments
                .push(format!("AddressArgument::new({pointer}, \"{name}\")"));
            continue;
        }
        let wrap = parameter.only_large() && !declaration.by_value() && !declaration.array;
        out.arguments.push(if wrap {
            format!("Some({argument})")
        } else {
            argument
        });
    }
    let has_callback = || parameters.iter().any(|one| one.kind == "POLYFUNCTION");
    if function.large && (TOLD.contains(&group) || has_callback()) {
        out.arguments.push(format!("Form::{form:?}"));
    }
    Ok(out)
}

impl Body {
    /// `peer`: the process to or from which the data go, if there is one.
    fn buffer(
        &mut self,
        [buffer, count, datatype]: &[String; 3],
        constant: bool,
        lazy: bool,
        peer: Option<String>,
    ) {
        let pointer = pointer(buffer, constant);
        if lazy {
            self.arguments.push(format!(
                "BufferArgument::new({pointer}, {count}.into(), {datatype}, [\"{buffer}\", \"{count}\", \"{datatype}\"])"
            ));
        } else {
            let committed = match peer {
                Some(peer) => committed_for(datatype, &format!("{count}.into()"), &peer),
                None => format!("check::committed({datatype}, \"{datatype}\")?"),
            };
            self.lines.extend([
                format!("let {datatype} = {committed};"),
                format!("let {count} = check::count({count}.into(), \"{count}\")?;"),
                format!(
                    "let {buffer} = check::buffer({pointer}, {count}, {datatype}, \"{buffer}\")?;"
                ),
            ]);
            self.arguments.push(buffer.clone());
        }
    }

    fn blocks(&mut self, blocks: &Blocks) {
        let [buffer, counts, displacements, datatype] = &blocks.names;
        let pointer = pointer(buffer, blocks.constant);
        for list in [counts, displacements] {
            self.lines
                .push(format!("let {list} = check::counts({list}, \"{list}\")?;"));
        }
        self.arguments.push(format!(
            "{}::new({pointer}, {counts}, {displacements}, {datatype}, [\"{buffer}\", \"{counts}\", \"{displacements}\", \"{datatype}\"])",
            blocks.argument
        ));
    }
}

/// A buffer of blocks and the arguments with their places: counts, displacements, and one datatype or one for
/// each block.
struct Blocks {
    names: [String; 4],
    constant: bool,
    /// The type that combines the four.
    argument: &'static str,
}

impl Blocks {
    fn find(parameters: &[Parameter]) -> Option<Self> {
        let [buffer, counts, displacements, datatype, ..] = parameters else {
            return None;
        };
        let fits = buffer.kind == "BUFFER"
            && counts.kind.contains("XFER_NUM_ELEM")
            && displacements.kind.contains("DISPLACEMENT")
            && datatype.kind == "DATATYPE";
        let [buffer, counts, displacements, datatype] = [
            buffer.widest()?,
            counts.widest()?,
            displacements.widest()?,
            datatype.widest()?,
        ];
        (fits && counts.array && displacements.array).then_some(Self {
            constant: buffer.constant,
            argument: if datatype.array {
                "TypedBlocksArgument"
            } else {
                "BlocksArgument"
            },
            names: [buffer.name, counts.name, displacements.name, datatype.name],
        })
    }
}

/// The address of a buffer in the form of the arguments.
fn pointer(name: &str, constant: bool) -> String {
    if constant {
        format!("{name}.cast_mut()")
    } else {
        name.to_owned()
    }
}

struct Rule {
    check: Option<String>,
    argument: String,
}

/// A buffer, its count and its datatype, one after the other.
pub fn triple(parameters: &[Parameter]) -> Option<[String; 3]> {
    let [buffer, count, datatype, ..] = parameters else {
        return None;
    };
    let name = |parameter: &Parameter| parameter.widest().map(|declaration| declaration.name);
    let scalar = |parameter: &Parameter| {
        parameter
            .widest()
            .is_some_and(|declaration| declaration.by_value())
    };
    let fits = buffer.kind == "BUFFER"
        && (count.kind.contains("XFER_NUM_ELEM") || count.kind.contains("DTYPE_NUM_ELEM"))
        && datatype.kind == "DATATYPE"
        && scalar(count)
        && scalar(datatype);
    fits.then(|| Some([name(buffer)?, name(count)?, name(datatype)?]))?
}

/// The process to which a call sends or from which it receives, found among the first parameters, as an
/// expression. A message of a matched probe also has one.
fn peer(parameters: &[Parameter]) -> Option<String> {
    if let Some(message) = parameters.first().filter(|first| first.kind == "MESSAGE") {
        let name = message.widest()?.name;
        return Some(format!("check::sender({name})"));
    }
    let peer = parameters
        .iter()
        .find(|parameter| matches!(parameter.check.as_deref(), Some("dest" | "source")))?;
    Some(peer.widest()?.name)
}

/// The check of a datatype of which so many elements go to a peer or come from it; `count` is an expression.
fn committed_for(datatype: &str, count: &str, peer: &str) -> String {
    format!("check::committed_for({datatype}, {count}, {peer}, \"{datatype}\")?")
}

/// The count and the peer of a datatype that does not follow its buffer at once: those of partitioned communication.
fn counted(function: &Function, datatype: &str) -> Option<(String, String)> {
    let parameters = &function.parameters;
    let place = parameters.windows(2).position(|pair| {
        let is_count = pair[0].kind.contains("XFER_NUM_ELEM");
        let next = pair[1].widest();
        is_count && next.is_some_and(|declaration| declaration.name == datatype)
    })?;
    let count = parameters[place].widest()?.name;
    Some((count, peer(&parameters[place + 2..])?))
}

fn is_communicator(parameter: &Parameter) -> bool {
    parameter.kind == "COMMUNICATOR"
        && parameter.check.as_deref() != Some("or_null")
        && parameter
            .widest()
            .is_some_and(|declaration| declaration.by_value())
}

fn rule(
    group: &str,
    function: &Function,
    parameter: &Parameter,
    declaration: &Declaration,
    lazy: bool,
) -> Result<Rule> {
    let name = &declaration.name;
    let checked = |text: String| Rule {
        check: Some(text),
        argument: name.clone(),
    };
    let plain = || Rule {
        check: None,
        argument: name.clone(),
    };
    let by = |function: &str| checked(format!("check::{function}({name}, \"{name}\")?"));
    if declaration.is_callback() {
        return Ok(plain());
    }
    if parameter.check.as_deref() == Some("at_root") {
        return Ok(plain());
    }
    if group == "tool" {
        // The calls check handles and indices themselves; addresses may be null.
        return Ok(if declaration.by_value() {
            plain()
        } else {
            let address = pointer(name, declaration.constant);
            checked(format!("Optional::new({address})"))
        });
    }
    if declaration.by_value() {
        return Ok(
            match (parameter.kind.as_str(), parameter.check.as_deref()) {
                (_, Some("dest")) => {
                    checked(format!("check::destination({name}, comm, \"{name}\")?"))
                }
                (_, Some("source")) => checked(format!("check::source({name}, comm, \"{name}\")?")),
                (_, Some("root")) => checked(format!("check::root({name}, comm, \"{name}\")?")),
                (_, Some("rank" | "or_null")) => plain(),
                (_, Some("send_tag")) => by("send_tag"),
                (_, Some("receive_tag")) => by("receive_tag"),
                ("DATATYPE", _) if group == "file" => by("datatype"),
                ("DATATYPE", _) if lazy && !has(function, "OPERATION") => plain(),
                ("DATATYPE", _) if has(function, "BUFFER") => match counted(function, name) {
                    Some((count, peer)) => {
                        checked(committed_for(name, &format!("{count} as i64"), &peer))
                    }
                    None => by("committed"),
                },
                ("DATATYPE", _) => by("datatype"),
                ("GROUP", _) => by("group"),
                ("OPERATION", _) => by("operation"),
                ("INFO", _) if group == "info" => by("info"),
                ("INFO", _) => by("info_or_null"),
                ("ERRHANDLER", _) => by("errhandler"),
                ("SESSION", _) => by("session"),
                ("WINDOW", _) => by("window"),
                ("FILE", _) => by("file"),
                ("LOGICAL", _) => Rule {
                    check: None,
                    argument: format!("{name} != 0"),
                },
                (kind, _) if kind.contains("XFER_NUM_ELEM") || kind.contains("DTYPE_NUM_ELEM_") => {
                    checked(format!("check::count({name}.into(), \"{name}\")?"))
                }
                (kind, _)
                    if kind.starts_with("ARRAY_LENGTH")
                        || kind == "PARTITION"
                        || kind == "NUM_DIMS"
                        || kind == "POLYNUM_PARAM_VALUES" =>
                {
                    checked(format!("check::length({name}.into(), \"{name}\")?"))
                }
                (kind, _) if kind.contains("NUM_BYTES") || kind.ends_with("PACK_SIZE") => {
                    checked(format!("check::bytes({name} as i64, \"{name}\")?"))
                }
                _ if parameter.kind != "ARGUMENT_COUNT" && is_length(function, name) => {
                    checked(format!("check::length({name}.into(), \"{name}\")?"))
                }
                _ if parameter.is_poly() => checked(format!("{name} as c::Count")),
                _ => plain(),
            },
        );
    }
    if parameter.kind == "STATUS" && parameter.direction != "in" {
        return Ok(if declaration.array {
            let length = parameter.length.as_deref().unwrap_or("0");
            checked(format!("StatusesOut::new({name}, {length})"))
        } else {
            checked(format!("StatusOut::new({name})"))
        });
    }
    if parameter.kind == "STRING" && parameter.direction == "in" {
        return Ok(by("text"));
    }
    if declaration.array && declaration.stars == 0 {
        let element_poly = parameter.is_poly() || declaration.base == "MPI_Aint";
        let length = parameter.length.as_deref().unwrap_or("*");
        let length = length.split('*').next().unwrap_or_default();
        return Ok(
            match (
                parameter.direction.as_str(),
                element_poly && parameter.kind != "DATATYPE",
            ) {
                ("in", true) if length.is_empty() => by("counts"),
                ("in", true) => checked(format!(
                    "check::counts({name}, \"{name}\")?.with_length({length})"
                )),
                (_, _) if length.is_empty() => plain(),
                ("in", false) => checked(format!("check::slice({name}, {length}, \"{name}\")?")),
                _ => checked(format!("check::slice_mut({name}, {length}, \"{name}\")?")),
            },
        );
    }
    if declaration.stars != 1 || declaration.array || parameter.kind == "ARGUMENT_COUNT" {
        return Ok(plain());
    }
    Ok(
        match (declaration.base.as_str(), parameter.direction.as_str()) {
            ("char", _) if parameter.check.as_deref() == Some("optional") => plain(),
            ("char", "in") => by("text"),
            ("char", _) => by("text_out"),
            // The value of an attribute: the address itself as input, the place to store it as output.
            ("void", _) => plain(),
            ("MPI_Status", "in") => by("status"),
            (_, "in") if declaration.constant => by("reference"),
            (_, "out") if parameter.is_poly() => by("count_out"),
            (_, "out") if parameter.only_large() => by("count_out"),
            (_, "out") => by("out"),
            (_, "inout" | "in") => by("in_out"),
            _ => bail!(
                "{}: no rule for `{}` of kind {}; add one to xtask/src/codegen/forms.rs",
                function.name,
                declaration.in_c(),
                parameter.kind
            ),
        },
    )
}

/// Whether this parameter is the length of an array of the function.
fn is_length(function: &Function, name: &str) -> bool {
    function
        .parameters
        .iter()
        .any(|parameter| parameter.length.as_deref() == Some(name))
}

fn has(function: &Function, kind: &str) -> bool {
    function
        .parameters
        .iter()
        .any(|parameter| parameter.kind == kind)
}
