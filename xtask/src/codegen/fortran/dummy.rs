//! Dummy argument: the form of a parameter of C in Fortran.

use super::super::declaration::Declaration;
use super::super::table::{Function, Parameter};

/// One of the two bindings. `mpif.h` has no interfaces; the entry points of module `mpi` are its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Binding {
    /// Module `mpi`: handles are integers.
    Old,
    /// Module `mpi_f08`: handles have types.
    F08,
}

/// The type of a dummy argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Type {
    /// Any variable: its address.
    Choice,
    Integer,
    /// An integer of eight bytes: the name of its kind.
    Long(&'static str),
    Logical,
    Text,
    /// `type(c_ptr)`.
    Pointer,
    /// A handle: its name without prefix.
    Handle(String),
    Status,
    /// A procedure: its abstract interface.
    Procedure(String),
}

/// A dummy argument.
#[derive(Clone, Debug)]
pub struct Dummy {
    pub name: String,
    pub kind: Type,
    /// Bounds after the name; empty for a scalar.
    pub bounds: String,
    intent: Option<&'static str>,
    asynchronous: bool,
    binding: Binding,
}

/// The type of a handle: its name without prefix.
pub fn handle(base: &str) -> Option<&str> {
    let name = base.strip_prefix("MPI_")?;
    let kinds = [
        "Comm",
        "Group",
        "Win",
        "Session",
        "Message",
        "Info",
        "Errhandler",
        "Op",
        "Request",
        "Datatype",
        "File",
    ];
    kinds.contains(&name).then_some(name)
}

impl Dummy {
    /// The dummy argument for a parameter; `None` if Fortran has no such argument.
    pub fn of(
        function: &Function,
        parameter: &Parameter,
        declaration: &Declaration,
        binding: Binding,
    ) -> Option<Self> {
        let kind = match parameter.kind.as_str() {
            "ARGUMENT_COUNT" | "ARGUMENT_LIST" | "VARARGS" => return None,
            "BUFFER" | "LOGICAL_VOID" => Type::Choice,
            "C_BUFFER2" if binding == Binding::Old => Type::Choice,
            "C_BUFFER" if binding == Binding::Old => Type::Long("MPI_ADDRESS_KIND"),
            "C_BUFFER" | "C_BUFFER2" => Type::Pointer,
            "STRING" | "STRING_ARRAY" | "STRING_2DARRAY" => Type::Text,
            "FUNCTION" | "POLYFUNCTION" => Type::Procedure(declaration.base.clone()),
            "EXTRA_STATE" | "ATTRIBUTE_VAL" => Type::Long("MPI_ADDRESS_KIND"),
            "EXTRA_STATE2" | "ATTRIBUTE_VAL_10" => Type::Integer,
            "LOGICAL" | "LOGICAL_OPTIONAL" => Type::Logical,
            _ => match declaration.base.as_str() {
                "MPI_Status" => Type::Status,
                "MPI_Aint" => Type::Long("MPI_ADDRESS_KIND"),
                "MPI_Count" => Type::Long("MPI_COUNT_KIND"),
                "MPI_Offset" => Type::Long("MPI_OFFSET_KIND"),
                base => match handle(base) {
                    Some(name) if binding == Binding::F08 => Type::Handle(name.to_owned()),
                    _ => Type::Integer,
                },
            },
        };
        let is_array = declaration.array && kind != Type::Choice;
        let bounds = match (&kind, parameter.kind.as_str()) {
            (Type::Text, "STRING") => String::new(),
            (_, "STRING_2DARRAY") => "(count,*)".to_owned(),
            (Type::Status, _) if binding == Binding::Old && is_array => {
                "(MPI_STATUS_SIZE,*)".to_owned()
            }
            (Type::Status, _) if binding == Binding::Old => "(MPI_STATUS_SIZE)".to_owned(),
            _ if !is_array => String::new(),
            _ => declaration
                .inner
                .map_or_else(|| "(*)".to_owned(), |inner| format!("({inner},*)")),
        };
        // If the program may pass an address with a special meaning, the argument is not declared as written.
        let is_special = matches!(kind, Type::Status | Type::Choice) || !bounds.is_empty();
        let intent = match (parameter.direction.as_str(), &kind) {
            (_, Type::Procedure(_)) => None,
            (_, Type::Choice) => declaration.constant.then_some("in"),
            ("in", _) => Some("in"),
            ("inout", _) => Some("inout"),
            _ if is_special => None,
            _ => Some("out"),
        };
        Some(Self {
            name: declaration.name.clone(),
            asynchronous: kind == Type::Choice && outlives(function),
            kind,
            bounds,
            intent: intent.filter(|_| binding == Binding::F08),
            binding,
        })
    }

    /// Type, kind and rank: these distinguish procedures of the same name.
    pub fn shape(&self) -> String {
        let kind = match &self.kind {
            Type::Long(_) => "integer of eight bytes".to_owned(),
            Type::Procedure(_) => "procedure".to_owned(),
            other => format!("{other:?}"),
        };
        format!("{kind} {}", self.bounds.matches([',', '(']).count())
    }

    /// Lines that declare it.
    pub fn declared(&self) -> Vec<String> {
        let name = &self.name;
        let kind = match &self.kind {
            Type::Choice => {
                // It is a target: for anything else GCC assumes that nobody keeps the address after the call, and then misses
                // what MPI writes later (`tests/programs/fortran/late.f90`).
                let mut line = "type(*), dimension(*), target".to_owned();
                if self.asynchronous && self.binding == Binding::F08 {
                    line += ", asynchronous";
                }
                if let Some(intent) = self.intent {
                    line += &format!(", intent({intent})");
                }
                return vec![
                    format!("!DIR$ IGNORE_TKR {name}"),
                    format!("!DEC$ ATTRIBUTES NO_ARG_CHECK :: {name}"),
                    format!("!GCC$ ATTRIBUTES NO_ARG_CHECK :: {name}"),
                    format!("{line} :: {name}"),
                ];
            }
            Type::Integer => "integer".to_owned(),
            Type::Status if self.binding == Binding::Old => "integer".to_owned(),
            Type::Long(kind) => format!("integer(kind={kind})"),
            Type::Logical => "logical".to_owned(),
            Type::Text => "character(len=*)".to_owned(),
            Type::Pointer => "type(c_ptr)".to_owned(),
            Type::Handle(handle) => format!("type(MPI_{handle})"),
            Type::Status => "type(MPI_Status)".to_owned(),
            Type::Procedure(_) if self.binding == Binding::Old => {
                return vec![format!("external {name}")];
            }
            Type::Procedure(interface) => format!("procedure({interface})"),
        };
        let intent = self
            .intent
            .map_or_else(String::new, |intent| format!(", intent({intent})"));
        vec![format!("{kind}{intent} :: {name}{}", self.bounds)]
    }

    /// Names of the module that its declaration needs.
    pub fn needs(&self) -> Vec<String> {
        match &self.kind {
            Type::Long(kind) => vec![(*kind).to_owned()],
            Type::Pointer => vec!["c_ptr".to_owned()],
            Type::Handle(handle) => vec![format!("MPI_{handle}")],
            Type::Status if self.binding == Binding::Old => vec!["MPI_STATUS_SIZE".to_owned()],
            Type::Status => vec!["MPI_Status".to_owned()],
            Type::Procedure(interface) if self.binding == Binding::F08 => vec![interface.clone()],
            _ => Vec::new(),
        }
    }
}

/// Whether a call continues to use its buffers after it has returned.
fn outlives(function: &Function) -> bool {
    let name = &function.name;
    let takes = |kind: &str| {
        function
            .parameters
            .iter()
            .any(|one| one.kind == kind && one.direction != "in")
    };
    takes("REQUEST")
        || function.parameters.iter().any(|one| one.kind == "WINDOW")
        || name.ends_with("_begin")
        || name.ends_with("_end")
        || name.ends_with("ttach_buffer")
        || name.ends_with("uffer_attach")
}
