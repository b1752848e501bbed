//! Translation of one parameter: the argument that is passed to the standard ABI instead, and the statements
//! before and after the call.

use anyhow::{Result, bail};

use super::super::declaration::Declaration;
use super::super::table::{Function, Parameter};
use super::{Common, KINDS, has_length, values};

/// The translation of a parameter.
pub struct Translation {
    pub before: Vec<String>,
    pub argument: String,
    pub after: Vec<String>,
}

/// The type of a handle: its name in Rust.
fn handle(base: &str) -> Option<&'static str> {
    let found = KINDS.iter().find(|(c, _)| *c == base);
    found.map(|(_, name)| *name)
}

/// A type in Rust, for either ABI.
fn rust(declaration: &Declaration, file: &str, other_handle: &str, status: &str) -> Result<String> {
    if declaration.is_callback() {
        bail!("a callback is written by hand");
    }
    let base = match declaration.base.as_str() {
        "int" | "MPI_T_cb_safety" | "MPI_T_source_order" => "c_int",
        "double" => "f64",
        "char" => "c_char",
        "void" => "c_void",
        "MPI_Aint" => "isize",
        "MPI_Count" | "MPI_Offset" => "i64",
        "MPI_Status" => status,
        "MPI_File" => file,
        base if base.starts_with("MPI_T_") => "usize",
        base if handle(base).is_some() => other_handle,
        other => bail!("the type {other} is not known"),
    };
    let element = match declaration.inner {
        Some(length) => format!("[{base}; {length}]"),
        None => base.to_owned(),
    };
    let mutability = if declaration.constant {
        "*const "
    } else {
        "*mut "
    };
    let pointers = declaration.stars + usize::from(declaration.array);
    Ok(format!("{}{element}", mutability.repeat(pointers)))
}

/// The type of a parameter in a foreign ABI.
pub fn classic_type(declaration: &Declaration) -> Result<String> {
    rust(declaration, "usize", "Word", "Classic")
}

/// The type of a parameter in the standard ABI.
pub fn standard_type(declaration: &Declaration) -> Result<String> {
    let text = rust(declaration, "usize", "usize", "Standard")?;
    // There, constant and mutable pointers are not distinguished, so that translated and untranslated
    // arguments have one type.
    Ok(match declaration.base.as_str() {
        "void" | "int" | "MPI_Status" => text.replace("*const ", "*mut "),
        base if handle(base).is_some() => text.replace("*const ", "*mut "),
        _ => text,
    })
}

impl Translation {
    fn new(argument: String) -> Self {
        Self {
            before: Vec::new(),
            argument,
            after: Vec::new(),
        }
    }

    fn before(mut self, line: String) -> Self {
        self.before.push(line);
        self
    }

    fn after(mut self, line: String) -> Self {
        self.after.push(line);
        self
    }

    /// A text that is stored in a buffer of the program.
    pub fn of_text(declaration: &Declaration, room: &str, length: &str) -> Self {
        let name = &declaration.name;
        let standard_room = values::standard_name(room);
        let room = values::own_name(room);
        Self::new(format!(
            "if {name}.is_null() {{ {name} }} else {{ {name}_text.as_mut_ptr().cast() }}"
        ))
        .before(format!(
            "let mut {name}_text = [0_u8; number::{standard_room}];"
        ))
        .after(format!(
            "number::give_text(code, &{name}_text, number::{room}, {name}.cast(), {length});"
        ))
    }

    /// The translation of a parameter, according to the tables.
    pub fn of(
        common: &Common,
        group: &str,
        function: &Function,
        parameter: &Parameter,
        declaration: &Declaration,
    ) -> Result<Self> {
        let name = &declaration.name;
        let single = declaration.stars == 1 && !declaration.array;
        let output = parameter.direction == "out";
        if declaration.base == "MPI_Status" {
            return Ok(status(parameter, declaration));
        }
        if let Some(kind) = handle(&declaration.base) {
            let kind = format!("handle::{kind}");
            if declaration.by_value() {
                return Ok(Self::new(format!("{kind}::decode({name})")));
            }
            if single && output {
                return Ok(
                    Self::new(format!("handle::out_pointer({name}, &mut {name}_made)"))
                        .before(format!("let mut {name}_made = 0;"))
                        .after(format!(
                            "handle::store_made::<{kind}>({name}, {name}_made);"
                        )),
                );
            }
            if single {
                let loaded = Self::new(format!("handle::out_pointer({name}, &mut {name}_there)"))
                    .before(format!(
                        "let mut {name}_there = handle::load::<{kind}>({name});"
                    ));
                return Ok(match parameter.direction.as_str() {
                    "in" => loaded,
                    _ => loaded.after(format!("handle::store::<{kind}>({name}, {name}_there);")),
                });
            }
            if !has_length(declaration) || output {
                bail!("handles of {name} are not translated");
            }
            let count = count(group, function, parameter, name)?;
            let translated = Self::new(format!("{name}_there.as_mut_ptr()")).before(format!(
                "let mut {name}_there = array::handles::<{kind}>({name}, {count});"
            ));
            return Ok(match parameter.direction.as_str() {
                "in" => translated,
                _ => translated.after(format!("{name}_there.store({name}, {kind}::encode);")),
            });
        }
        if let Some(translated) = number(common, function, parameter, declaration)? {
            return Ok(translated);
        }
        let places = [
            "coll",
            "coll_nonblocking",
            "coll_persistent",
            "neighborhood",
            "buffering",
        ];
        Ok(match parameter.kind.as_str() {
            "BUFFER" if places.contains(&group) => {
                Self::new(format!("number::address::decode({name})"))
            }
            "C_BUFFER2" if output => Self::new(name.clone()).after(format!(
                "if code == 0 {{ number::address::encode_at({name}); }}"
            )),
            "PVAR" if declaration.by_value() => {
                Self::new(format!("number::variable_handle::decode({name})"))
            }
            "WEIGHT" => Self::new(format!("number::weights::decode({name})")),
            "OFFSET" if name == "disp" && declaration.by_value() => {
                Self::new(format!("number::displacement::decode({name})"))
            }
            // The types differ only in `const`.
            _ if declaration.constant
                && matches!(declaration.base.as_str(), "void" | "int")
                && declaration.stars + usize::from(declaration.array) == 1 =>
            {
                Self::new(format!("{name}.cast_mut()"))
            }
            _ => Self::new(name.clone()),
        })
    }
}

/// Numbers that are constants.
fn number(
    common: &Common,
    function: &Function,
    parameter: &Parameter,
    declaration: &Declaration,
) -> Result<Option<Translation>> {
    let name = &declaration.name;
    let module = match parameter.kind.as_str() {
        "RANK" | "RANK_NNI" => "number::rank".to_owned(),
        // Tags of messages to send cannot be wildcards.
        "TAG" if parameter.check.as_deref() == Some("send_tag") => return Ok(None),
        "TAG" => "number::tag".to_owned(),
        "ERROR_CODE" | "ERROR_CLASS" => "error".to_owned(),
        "DTYPE_DISTRIBUTION" => "number::distribution_argument".to_owned(),
        kind => match common.numbers_of(kind) {
            Some(numbers) => format!("number::{numbers}"),
            None => return Ok(None),
        },
    };
    if declaration.by_value() {
        return Ok(Some(Translation::new(format!("{module}::decode({name})"))));
    }
    if declaration.inner.is_some() {
        return Ok(None);
    }
    let length = parameter.length.as_deref().filter(|length| *length != "*");
    let output = parameter.direction != "in";
    Ok(Some(match (declaration.array, length) {
        (false, _) if parameter.direction == "inout" => Translation::new(name.clone())
            .before(format!(
                "if !{name}.is_null() {{ {name}.write_unaligned({module}::decode({name}.read_unaligned())); }}"
            ))
            .after(format!("array::encode_numbers(0, {name}, 1, {module}::encode);")),
        (false, _) => Translation::new(name.clone())
            .after(format!("array::encode_numbers(code, {name}, 1, {module}::encode);")),
        // Lists of members contain ranks that exist; the ranks that this call returns may also be constants.
        (true, Some(length)) if output && function.name == "MPI_Group_translate_ranks" => Translation::new(name.clone())
            .after(format!(
                "array::encode_numbers(code, {name}, length({length}), {module}::encode);"
            )),
        (true, Some(length)) if !output && !parameter.kind.starts_with("RANK_") => Translation::new(format!("{name}_there.as_mut_ptr()"))
            .before(format!(
                "let mut {name}_there = array::Translated::new({name}, length({length}), {module}::decode);"
            )),
        _ => return Ok(None),
    }))
}

/// Statuses.
fn status(parameter: &Parameter, declaration: &Declaration) -> Translation {
    let name = &declaration.name;
    if declaration.array {
        let count = parameter.length.as_deref().unwrap_or("count");
        return Translation::new(format!("{name}_there.as_mut_ptr()"))
            .before(format!(
                "let mut {name}_there = status::Array::new({name}, {count});"
            ))
            .after(format!("{name}_there.store();"));
    }
    let given = match parameter.direction.as_str() {
        "out" => Translation::new(format!("{name}_there.out_pointer({name})"))
            .before(format!("let mut {name}_there = Standard::unset();")),
        _ => Translation::new(format!("{name}_there.out_pointer({name})"))
            .before(format!("let mut {name}_there = Standard::load({name});")),
    };
    match parameter.direction.as_str() {
        "in" => given,
        _ => given.after(format!("{name}_there.store({name});")),
    }
}

/// How many elements an array of handles has.
fn count(group: &str, function: &Function, parameter: &Parameter, name: &str) -> Result<String> {
    match parameter.length.as_deref() {
        Some("*") if group.starts_with("coll") => {
            // The types for sending have no meaning if the data are in place.
            let unused = match name.starts_with("send") {
                true => format!("{name}.is_null() || number::address::is_in_place(sendbuf)"),
                false => format!("{name}.is_null()"),
            };
            Ok(format!(
                "standard::peers(handle::Comm::decode(comm), {unused})"
            ))
        }
        Some("*") => {
            let degree = if name.starts_with("send") {
                "outgoing"
            } else {
                "incoming"
            };
            Ok(format!("standard::{degree}(handle::Comm::decode(comm))"))
        }
        Some(length) => Ok(format!("length({length})")),
        None => bail!("{} does not say how long {name} is", function.name),
    }
}
