//! Calls with extremes, `tests/programs/extremes_calls.h`: a call of every function of the C binding, for the test that
//! passes the extremes of each argument in turn (`tests/programs/extremes.c`).
//!
//! A parameter becomes a call of a `take_…` function of `tests/programs/extremes.h`, according to its
//! declaration and its kind: the function returns a permitted value, or an extreme of that kind when it is
//! the turn of this parameter.

use std::fmt::Write;

use super::NOTICE;
use super::declaration::Declaration;
use super::table::{Form, Function, Parameter, Tables};

/// Functions that are not called, and why.
const LEFT_OUT: [(&str, &str); 2] = [
    ("MPI_Abort", "ends the job, as it must"),
    (
        "MPIX_Comm_revoke",
        "ends whatever is done with the communicator, as it must",
    ),
];

/// The whole file.
pub fn text(tables: &Tables) -> String {
    let mut out =
        format!("/* {NOTICE}\n * Every function with arguments that extremes.h chooses. */\n\n");
    let mut rows = String::new();
    for (name, function) in tables.functions() {
        let _ = name;
        if let Some((name, why)) = LEFT_OUT.iter().find(|(name, _)| *name == function.name) {
            let _ = writeln!(out, "/* {name} {why}. */\n");
            continue;
        }
        for form in function.forms() {
            out.push_str(&call(function, form));
            let name = function.name_of(form);
            let _ = writeln!(
                rows,
                "    {{\"{name}\", call_{name}, {}}},",
                declarations(function, form).count()
            );
        }
    }
    let _ = write!(
        out,
        "static const struct function functions[] = {{\n{rows}}};\n"
    );
    out
}

fn declarations(
    function: &Function,
    form: Form,
) -> impl Iterator<Item = (&Parameter, Declaration)> + '_ {
    function
        .parameters
        .iter()
        .filter_map(move |parameter| Some((parameter, parameter.declaration(form)?)))
}

fn call(function: &Function, form: Form) -> String {
    let name = function.name_of(form);
    let mut out = format!("static int call_{name}(struct choice *c) {{\n");
    let mut arguments = Vec::new();
    for (place, (parameter, declaration)) in declarations(function, form).enumerate() {
        let kind = if declaration.is_callback() {
            // A parameter of a function type is the address of a function.
            format!("{} *", declaration.base)
        } else if declaration.by_value() {
            format!("{} ", declaration.base)
        } else {
            "void *".to_owned()
        };
        let value = value(function, parameter, &declaration, place);
        let _ = writeln!(out, "    {kind}a{place} = {value};");
        arguments.push(format!("a{place}"));
    }
    out.push_str("    if (c->over) return MPI_SUCCESS;\n");
    let arguments = arguments.join(", ");
    if function.returns.is_some() {
        let _ = writeln!(
            out,
            "    (void){name}({arguments});\n    return MPI_SUCCESS;"
        );
    } else {
        let _ = writeln!(out, "    return {name}({arguments});");
    }
    out.push_str("}\n\n");
    out
}

/// The expression that chooses a value.
fn value(
    function: &Function,
    parameter: &Parameter,
    declaration: &Declaration,
    place: usize,
) -> String {
    let kind = parameter.kind.as_str();
    let base = declaration.base.as_str();
    let word = ordinary(function, parameter, declaration);
    if declaration.is_callback() {
        return format!("({base} *)take_function(c, {place})");
    }
    if declaration.by_value() {
        return match (base, parameter.check.as_deref()) {
            ("int", Some("dest" | "source")) => {
                format!(
                    "take_peer(c, {place}, {})",
                    u8::from(may_wait(&function.name))
                )
            }
            ("int", _) if kind.starts_with("ARRAY_LENGTH") || kind.contains("XFER_NUM_ELEM") => {
                format!("take_length(c, {place}, {word}, {})", longest(function))
            }
            ("int", _) => format!("take_int(c, {place}, {word})"),
            ("MPI_Count" | "MPI_Aint" | "MPI_Offset", _) => {
                format!("take_wide(c, {place}, {word})")
            }
            ("MPI_T_cb_safety" | "MPI_T_source_order", _) => {
                format!("({base})take_int(c, {place}, 0)")
            }
            _ => format!("take_handle(c, {place}, {word}, {})", family(kind)),
        };
    }
    if declaration.inner.is_some() {
        return format!("take_ranges(c, {place})");
    }
    if function.name == "MPI_Free_mem" {
        return format!("take_allocated(c, {place})");
    }
    if kind == "BUFFER" && base == "void" {
        return format!("take_buffer(c, {place})");
    }
    if kind == "STATUS" {
        return if declaration.array {
            format!("take_statuses(c, {place})")
        } else {
            format!("take_status(c, {place})")
        };
    }
    if base == "char" && declaration.stars + usize::from(declaration.array) == 1 {
        return if parameter.direction == "in" {
            format!("take_text(c, {place}, {word})")
        } else {
            format!("take_area(c, {place})")
        };
    }
    let deep = declaration.stars + usize::from(declaration.array) > 1;
    if deep {
        // Texts must not be missing: their number follows from the end of the list or from another argument.
        return match kind {
            "STRING_ARRAY" if declaration.name == "argv" => format!("take_words(c, {place})"),
            "STRING_ARRAY" => format!("take_texts(c, {place})"),
            "STRING_2DARRAY" => format!("take_lists_of_words(c, {place})"),
            _ => format!("take_area(c, {place})"),
        };
    }
    let is_handle = base.starts_with("MPI_")
        && ![
            "MPI_Count",
            "MPI_Aint",
            "MPI_Offset",
            "MPI_Status",
            "MPI_T_source_order",
        ]
        .contains(&base);
    match (declaration.array, parameter.direction.as_str()) {
        (true, "in") if base == "int" => format!("take_ints(c, {place}, {word})"),
        (true, "in" | "inout") if is_handle => {
            format!("take_handles(c, {place}, {word}, {})", family(kind))
        }
        (true, "in") => format!("take_wides(c, {place}, {word})"),
        (false, "inout") if is_handle => {
            format!("take_handle_at(c, {place}, {word}, {})", family(kind))
        }
        (false, "in") if is_handle => {
            format!("take_handle_at(c, {place}, {word}, {})", family(kind))
        }
        (false, "inout") if base == "int" => format!("take_int_at(c, {place}, {word})"),
        (false, "inout") if base != "void" => format!("take_wide_at(c, {place}, {word})"),
        _ => format!("take_area(c, {place})"),
    }
}

/// The largest length of a list. Calls read each request of a list several times, and memory that is written
/// has to be allocated: both take long for 2^31 elements, which test no more than a few million.
fn longest(function: &Function) -> &'static str {
    let slow = function.parameters.iter().any(|parameter| {
        let list = parameter.widest().is_some_and(|one| one.array);
        list && (parameter.kind == "REQUEST" || parameter.direction != "in")
    });
    if slow { "1 << 26" } else { "INT_MAX" }
}

/// Whether a call waits for its peer if that exists.
fn may_wait(name: &str) -> bool {
    [
        "MPI_Send",
        "MPI_Ssend",
        "MPI_Rsend",
        "MPI_Bsend",
        "MPI_Recv",
        "MPI_Probe",
        "MPI_Mprobe",
        "MPI_Sendrecv",
        "MPI_Sendrecv_replace",
    ]
    .contains(&name)
}

/// The family of handles, as extremes.h names it.
fn family(kind: &str) -> &'static str {
    match kind {
        "COMMUNICATOR" => "COMMUNICATORS",
        "DATATYPE" => "DATATYPES",
        "GROUP" => "GROUPS",
        "OPERATION" => "OPERATIONS",
        "INFO" => "INFOS",
        "ERRHANDLER" => "ERRHANDLERS",
        "REQUEST" => "REQUESTS",
        "MESSAGE" => "MESSAGES",
        "SESSION" => "SESSIONS",
        "WINDOW" => "WINDOWS",
        "FILE" => "FILES",
        _ => "OTHERS",
    }
}

/// A value that the parameter may have, as a C expression.
fn ordinary(function: &Function, parameter: &Parameter, declaration: &Declaration) -> String {
    let (kind, name) = (parameter.kind.as_str(), declaration.name.as_str());
    let call = function.name.as_str();
    let text = match kind {
        "COMMUNICATOR" => communicator(call, parameter),
        "DATATYPE" if call == "MPI_Type_free" => "fresh_datatype()",
        "DATATYPE" if call.starts_with("MPI_Type_get_") && !declaration.array => "vector",
        // Small, so that the largest `int` count of it is copied quickly.
        "DATATYPE" => "MPI_INT8_T",
        "GROUP" if parameter.direction == "inout" => "fresh_group()",
        "GROUP" => "group",
        "OPERATION" if parameter.direction == "inout" => "fresh_operation()",
        "OPERATION" => "MPI_SUM",
        "INFO" if parameter.direction == "inout" => "fresh_info()",
        "INFO" if call.starts_with("MPI_Info_") => "info",
        "INFO" => "MPI_INFO_NULL",
        "ERRHANDLER" if parameter.direction == "inout" => "fresh_errhandler()",
        "ERRHANDLER" => "MPI_ERRORS_RETURN",
        "REQUEST" if call == "MPI_Grequest_complete" => "fresh_generalised()",
        "REQUEST" if declaration.array => "MPI_REQUEST_NULL",
        "REQUEST" if call.starts_with("MPI_Start") || call.starts_with("MPI_P") => {
            "fresh_persistent()"
        }
        "REQUEST" => "fresh_request()",
        "MESSAGE" => "MPI_MESSAGE_NO_PROC",
        "SESSION" if parameter.direction == "inout" => "fresh_session()",
        "SESSION" => "session",
        "WINDOW" if parameter.direction == "inout" => "fresh_window()",
        "WINDOW" => "window",
        "FILE" if parameter.direction == "inout" => "fresh_file()",
        "FILE" => "file",
        "KEYVAL" if name.starts_with("type") && parameter.direction == "inout" => {
            "fresh_type_key()"
        }
        "KEYVAL" if parameter.direction == "inout" => "fresh_comm_key()",
        "KEYVAL" if name.starts_with("type") => "type_key",
        "KEYVAL" => "comm_key",
        "ERROR_CLASS" => "added_class",
        "ERROR_CODE" if declaration.by_value() => "added_code",
        "ORDER" => "MPI_ORDER_C",
        "SPLIT_TYPE" => "MPI_COMM_TYPE_SHARED",
        "THREAD_LEVEL" => "MPI_THREAD_MULTIPLE",
        "TYPECLASS" => "MPI_TYPECLASS_INTEGER",
        "TYPECLASS_SIZE" => "4",
        "MATH" => "6",
        "TAG" => "7",
        "DISTRIB_ENUM" => "MPI_DISTRIBUTE_BLOCK",
        "DTYPE_DISTRIBUTION" => "MPI_DISTRIBUTE_DFLT_DARG",
        "INFO_VALUE_LENGTH" | "STRING_LENGTH" => "64",
        "POLYNUM_PARAM_VALUES" => "64",
        "STRING" if name == "datarep" => "\"external32\"",
        "STRING" if name == "pset_name" => "\"mpi://SELF\"",
        "STRING" => "\"key\"",
        "LOGICAL" if declaration.array => "1",
        "LOGICAL" => "0",
        "DIMENSION" if parameter.direction == "inout" => "0",
        "DEGREE" | "WEIGHT" | "PROCESS_GRID_SIZE" | "DIMENSION" | "NUM_DIMS" => "1",
        _ if kind.starts_with("ARRAY_LENGTH") || kind.starts_with("COMM_SIZE") => "1",
        _ if kind.contains("NUM_BYTES") || kind.ends_with("PACK_SIZE") => "4096",
        _ if name.contains("position") => "0",
        _ if name.contains("starts") => "0",
        _ if name.contains("gsizes") || name == "array_of_sizes" => "4",
        _ if name == "extent" || name == "stride" => "16",
        _ if name == "partitions" => "1",
        _ if kind.contains("NUM_ELEM") => "4",
        _ if declaration.base.starts_with("MPI_")
            && !["MPI_Count", "MPI_Aint", "MPI_Offset"].contains(&declaration.base.as_str()) =>
        {
            "NULL"
        }
        _ => "0",
    };
    text.to_owned()
}

fn communicator(call: &str, parameter: &Parameter) -> &'static str {
    let of = |part: &str| call.contains(part);
    if parameter.direction == "inout" {
        "fresh_communicator()"
    } else if of("eighbor") {
        if of("MPI_Graph") {
            "graph"
        } else {
            "distributed"
        }
    } else if of("MPI_Cart_") && !of("create") && !of("map") || of("Cartdim") {
        "cartesian"
    } else if (of("MPI_Graph_") && !of("create") && !of("map")) || of("Graphdims") {
        "graph"
    } else {
        "MPI_COMM_SELF"
    }
}
