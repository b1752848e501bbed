//! Constants of Fortran: `mpif.h`, those of both modules, and those that the entry points need.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use anyhow::{Context, Result};

use super::super::NOTICE;
use super::super::table::{Family, Tables};
use super::handles;

/// Constants that C does not have, or has with another value. Indices of Fortran begin at one.
const OWN: [(&str, i64); 10] = [
    ("MPI_ADDRESS_KIND", 8),
    ("MPI_COUNT_KIND", 8),
    ("MPI_OFFSET_KIND", 8),
    ("MPI_INTEGER_KIND", 4),
    ("MPI_STATUS_SIZE", 8),
    ("MPI_SOURCE", 1),
    ("MPI_TAG", 2),
    ("MPI_ERROR", 3),
    ("MPI_F_STATUS_SIZE", 8),
    ("MPI_F08_STATUS_SIZE", 32),
];

/// Addresses with a special meaning: the common block, and how it is declared in module `mpi` and `mpif.h`.
pub const SENTINELS: [(&str, &str); 10] = [
    ("MPI_BOTTOM", "integer MPI_BOTTOM"),
    ("MPI_IN_PLACE", "integer MPI_IN_PLACE"),
    ("MPI_BUFFER_AUTOMATIC", "integer MPI_BUFFER_AUTOMATIC"),
    ("MPI_STATUS_IGNORE", "integer MPI_STATUS_IGNORE(8)"),
    ("MPI_STATUSES_IGNORE", "integer MPI_STATUSES_IGNORE(8,1)"),
    ("MPI_ERRCODES_IGNORE", "integer MPI_ERRCODES_IGNORE(1)"),
    ("MPI_ARGV_NULL", "character*1 MPI_ARGV_NULL(1)"),
    ("MPI_ARGVS_NULL", "character*1 MPI_ARGVS_NULL(1,1)"),
    ("MPI_UNWEIGHTED", "integer MPI_UNWEIGHTED(1)"),
    ("MPI_WEIGHTS_EMPTY", "integer MPI_WEIGHTS_EMPTY(1)"),
];

/// The common block of such an address.
pub fn common(name: &str) -> String {
    name.replacen("MPI_", "mpi_fortran_", 1).to_lowercase()
}

/// Predefined callbacks, and the abstract interface of each in module `mpi_f08`; none for the oldest ones.
pub const CALLBACKS: [(&str, Option<&str>); 14] = [
    ("MPI_COMM_DUP_FN", Some("MPI_Comm_copy_attr_function")),
    ("MPI_COMM_NULL_COPY_FN", Some("MPI_Comm_copy_attr_function")),
    (
        "MPI_COMM_NULL_DELETE_FN",
        Some("MPI_Comm_delete_attr_function"),
    ),
    ("MPI_TYPE_DUP_FN", Some("MPI_Type_copy_attr_function")),
    ("MPI_TYPE_NULL_COPY_FN", Some("MPI_Type_copy_attr_function")),
    (
        "MPI_TYPE_NULL_DELETE_FN",
        Some("MPI_Type_delete_attr_function"),
    ),
    ("MPI_WIN_DUP_FN", Some("MPI_Win_copy_attr_function")),
    ("MPI_WIN_NULL_COPY_FN", Some("MPI_Win_copy_attr_function")),
    (
        "MPI_WIN_NULL_DELETE_FN",
        Some("MPI_Win_delete_attr_function"),
    ),
    (
        "MPI_CONVERSION_FN_NULL",
        Some("MPI_Datarep_conversion_function"),
    ),
    (
        "MPI_CONVERSION_FN_NULL_C",
        Some("MPI_Datarep_conversion_function_c"),
    ),
    ("MPI_DUP_FN", None),
    ("MPI_NULL_COPY_FN", None),
    ("MPI_NULL_DELETE_FN", None),
];

/// A constant of an integer type.
pub struct Constant {
    pub name: String,
    pub value: i64,
    /// The kind of the integer, if it is not the default one.
    pub kind: Option<&'static str>,
}

/// Constants that are numbers and no handles.
pub fn numbers(tables: &Tables) -> Vec<Constant> {
    let own = OWN.iter().map(|(name, value)| Constant {
        name: (*name).to_owned(),
        value: *value,
        kind: None,
    });
    let families = tables.families.iter();
    let plain = families
        .filter(|family| {
            matches!(family.c.as_str(), "enum" | "macro" | "MPI_Offset")
                && !family.title.starts_with("Tools")
        })
        .flat_map(|family| {
            family.values().map(|(name, value)| Constant {
                name: name.to_owned(),
                value: in_fortran(name, value),
                kind: (family.c == "MPI_Offset").then_some("MPI_OFFSET_KIND"),
            })
        })
        // Indices into a status begin at one here, and have names of their own.
        .filter(|constant| !constant.name.starts_with("MPI_F_"));
    let errors = tables.errors.iter().map(|(name, error)| Constant {
        name: name.clone(),
        value: error.value,
        kind: None,
    });
    let mut seen = BTreeSet::new();
    own.chain(plain)
        .chain(errors)
        .filter(|constant| seen.insert(constant.name.clone()))
        .collect()
}

/// Texts of Fortran have no zero at their end: the longest are one shorter.
fn in_fortran(name: &str, value: i64) -> i64 {
    value - i64::from(name.starts_with("MPI_MAX_"))
}

/// Handles: the type without prefix, name and value.
pub fn handle_constants(tables: &Tables) -> Vec<(String, String, i64)> {
    let families = tables.families.iter();
    let mut all: Vec<_> = families
        .filter_map(|family: &Family| Some((handles(family)?, family)))
        .flat_map(|(kind, family)| {
            family
                .values()
                .map(|(name, value)| (kind.to_owned(), name.to_owned(), value))
        })
        .collect();
    all.extend(
        tables
            .datatypes
            .iter()
            .map(|(name, row)| ("Datatype".to_owned(), name.clone(), row.handle)),
    );
    for (other, name) in &tables.other_names {
        let found = tables.datatypes.iter().find(|(one, _)| one == name);
        all.extend(found.map(|(_, row)| ("Datatype".to_owned(), other.clone(), row.handle)));
    }
    all
}

/// `mpif.h`: each statement is on one line, in columns that suit both source forms.
pub fn include_file(tables: &Tables) -> String {
    let mut out = format!("!     {}\n", NOTICE.replace("; edit", ";\n!     edit"));
    let mut line = |text: &str| {
        assert!(text.len() <= 66, "`{text}` is too long for the fixed form");
        let _ = writeln!(out, "      {text}");
    };
    let numbers = numbers(tables);
    for one in &numbers {
        let kind = if one.kind.is_some() { "*8" } else { "" };
        line(&format!("integer{kind} {}", one.name));
        line(&format!("parameter ({}={})", one.name, one.value));
    }
    for (_, name, value) in handle_constants(tables) {
        line(&format!("integer {name}"));
        line(&format!("parameter ({name}={value})"));
    }
    // Markers of bounds, which MPI_TYPE_STRUCT accepts.
    for (name, value) in REMOVED {
        line(&format!("integer {name}"));
        line(&format!("parameter ({name}={value})"));
    }
    for name in LOGICALS {
        line(&format!("logical {name}"));
        line(&format!("parameter ({name}=.false.)"));
    }
    for (name, declaration) in SENTINELS {
        line(declaration);
        line(&format!("common /{}/ {name}", common(name)));
    }
    for (name, _) in CALLBACKS {
        line(&format!("external {name}"));
    }
    for prefix in ["MPI", "PMPI"] {
        for name in ["WTIME", "WTICK"] {
            line(&format!("double precision {prefix}_{name}"));
            line(&format!("external {prefix}_{name}"));
        }
        for name in ["AINT_ADD", "AINT_DIFF"] {
            line(&format!("integer*8 {prefix}_{name}"));
            line(&format!("external {prefix}_{name}"));
        }
    }
    out
}

/// As [`OWN`], in the ABI of MPICH.
pub const OWN_OF_MPICH: [(&str, i64); 10] = [
    ("MPI_ADDRESS_KIND", 8),
    ("MPI_COUNT_KIND", 8),
    ("MPI_OFFSET_KIND", 8),
    ("MPI_INTEGER_KIND", 4),
    ("MPI_STATUS_SIZE", 5),
    ("MPI_SOURCE", 3),
    ("MPI_TAG", 4),
    ("MPI_ERROR", 5),
    ("MPI_LB", 0x4c00_0010),
    ("MPI_UB", 0x4c00_0011),
];

/// Addresses with a special meaning, as in the `mpif.h` of MPICH and Intel MPI.
const SENTINELS_OF_MPICH: [&str; 15] = [
    "integer MPI_BOTTOM, MPI_IN_PLACE",
    "integer MPI_STATUS_IGNORE(5)",
    "common /mpipriv1/ MPI_BOTTOM, MPI_IN_PLACE",
    "common /mpipriv1/ MPI_STATUS_IGNORE",
    "integer MPI_STATUSES_IGNORE(5,1)",
    "integer MPI_ERRCODES_IGNORE(1)",
    "common /mpipriv2/ MPI_STATUSES_IGNORE",
    "common /mpipriv2/ MPI_ERRCODES_IGNORE",
    "character*1 MPI_ARGVS_NULL(1,1)",
    "character*1 MPI_ARGV_NULL(1)",
    "common /mpiprivc/ MPI_ARGVS_NULL, MPI_ARGV_NULL",
    "integer MPI_UNWEIGHTED",
    "common /mpifcmb5/ MPI_UNWEIGHTED",
    "integer MPI_WEIGHTS_EMPTY",
    "common /mpifcmb9/ MPI_WEIGHTS_EMPTY",
];

/// As [`OWN`], in the ABI of Open MPI.
const OWN_OF_OPENMPI: [(&str, i64); 10] = [
    ("MPI_ADDRESS_KIND", 8),
    ("MPI_COUNT_KIND", 8),
    ("MPI_OFFSET_KIND", 8),
    ("MPI_INTEGER_KIND", 4),
    ("MPI_STATUS_SIZE", 6),
    ("MPI_SOURCE", 1),
    ("MPI_TAG", 2),
    ("MPI_ERROR", 3),
    ("MPI_LB", 4),
    ("MPI_UB", 3),
];

/// Addresses with a special meaning, as in the `mpif.h` of Open MPI.
const SENTINELS_OF_OPENMPI: [&str; 16] = [
    "integer MPI_BOTTOM, MPI_IN_PLACE",
    "common /mpi_fortran_bottom/ MPI_BOTTOM",
    "common /mpi_fortran_in_place/ MPI_IN_PLACE",
    "integer MPI_STATUS_IGNORE(6), MPI_STATUSES_IGNORE(6,1)",
    "common /mpi_fortran_status_ignore/ MPI_STATUS_IGNORE",
    "common /mpi_fortran_statuses_ignore/ MPI_STATUSES_IGNORE",
    "integer MPI_ERRCODES_IGNORE(1)",
    "common /mpi_fortran_errcodes_ignore/ MPI_ERRCODES_IGNORE",
    "character*1 MPI_ARGV_NULL(1)",
    "common /mpi_fortran_argv_null/ MPI_ARGV_NULL",
    "character*1 MPI_ARGVS_NULL(1,1)",
    "common /mpi_fortran_argvs_null/ MPI_ARGVS_NULL",
    "integer MPI_UNWEIGHTED(1)",
    "common /mpi_fortran_unweighted/ MPI_UNWEIGHTED",
    "integer MPI_WEIGHTS_EMPTY(1)",
    "common /mpi_fortran_weights_empty/ MPI_WEIGHTS_EMPTY",
];

/// An `mpif.h` of the ABI of MPICH, with which the tests build programs like those built with MPICH.
pub fn include_file_of_mpich(tables: &Tables, values: &BTreeMap<String, i64>) -> String {
    // Fortran's key of a predefined attribute is the next number: it returns the value, where C returns the address of the value.
    let value = |name: &str| {
        let value = *values.get(name)?;
        Some(value + i64::from([0x64, 0x66].contains(&(value >> 24))))
    };
    include_file_of(tables, value, &OWN_OF_MPICH, &SENTINELS_OF_MPICH)
}

/// … of the ABI of Open MPI, where handles have other numbers than in C.
pub fn include_file_of_openmpi(
    tables: &Tables,
    values: &BTreeMap<String, i64>,
    handles: &BTreeMap<String, i64>,
) -> String {
    let value = |name: &str| handles.get(name).or_else(|| values.get(name)).copied();
    include_file_of(tables, value, &OWN_OF_OPENMPI, &SENTINELS_OF_OPENMPI)
}

/// An `mpif.h` of a foreign ABI: its constants, those that C does not have, and addresses with a meaning.
fn include_file_of(
    tables: &Tables,
    value: impl Fn(&str) -> Option<i64>,
    own: &[(&str, i64)],
    sentinels: &[&str],
) -> String {
    let mut out = format!("!     {}\n", NOTICE.replace("; edit", ";\n!     edit"));
    let mut line = |text: &str| {
        let _ = writeln!(out, "      {text}");
    };
    let plain = numbers(tables).into_iter();
    let plain = plain.map(|one| (one.name, if one.kind.is_some() { "*8" } else { "" }));
    let handles = handle_constants(tables).into_iter();
    let all = plain.chain(handles.map(|(_, name, _)| (name, "")));
    for (name, kind) in all.filter(|(name, _)| in_list(own, name).is_none()) {
        if let Some(value) = value(&name) {
            // Numbers of four bytes.
            let value = in_fortran(&name, value) as i32;
            line(&format!("integer{kind} {name}"));
            line(&format!("parameter ({name}={value})"));
        }
    }
    for (name, value) in own {
        line(&format!("integer {name}"));
        line(&format!("parameter ({name}={value})"));
    }
    for text in sentinels {
        line(text);
    }
    for (name, _) in CALLBACKS {
        line(&format!("external {name}"));
    }
    for name in ["MPI_WTIME", "MPI_WTICK"] {
        line(&format!("double precision {name}"));
        line(&format!("external {name}"));
    }
    out
}

/// Constants that the standard has removed.
pub const REMOVED: [(&str, i64); 5] = [
    ("MPI_LB", 0xf01),
    ("MPI_UB", 0xf02),
    ("MPI_COMBINER_HVECTOR_INTEGER", 201),
    ("MPI_COMBINER_HINDEXED_INTEGER", 202),
    ("MPI_COMBINER_STRUCT_INTEGER", 203),
];

/// Features that this layer lacks: the compiler copies buffers with gaps, and is not asked to keep buffers in use in their place.
pub const LOGICALS: [&str; 2] = ["MPI_SUBARRAYS_SUPPORTED", "MPI_ASYNC_PROTECTS_NONBLOCKING"];

/// Constants of C that the entry points need, of the standard ABI.
pub fn rust(tables: &Tables) -> Result<String> {
    listed(|name| {
        let mut all = tables.families.iter().flat_map(Family::values);
        let found = all
            .find(|(other, _)| *other == name)
            .map(|(_, value)| value);
        let found = found.or_else(|| {
            let error = tables.errors.iter().find(|(other, _)| *other == name);
            error.map(|(_, error)| error.value)
        });
        let found = found.or_else(|| {
            let mut datatypes = tables.datatypes.iter();
            let datatype = datatypes.find(|(other, _)| other == name);
            datatype.map(|(_, datatype)| datatype.handle)
        });
        let found = found.or_else(|| in_list(&OWN, name));
        let found = found.or_else(|| in_list(&REMOVED, name));
        let value = found.with_context(|| format!("the tables have no {name}"))?;
        Ok(Some(value))
    })
}

/// … of the ABI of MPICH, where some are addresses in the library instead of numbers.
pub fn rust_of_mpich(values: &BTreeMap<String, i64>) -> Result<String> {
    listed(|name| {
        let found = values.get(name).copied();
        Ok(found.or_else(|| in_list(&OWN_OF_MPICH, name)))
    })
}

/// … of the ABI of Open MPI; a handle has the form in which its library takes an integer of Fortran.
pub fn rust_of_openmpi(
    values: &BTreeMap<String, i64>,
    handles: &BTreeMap<String, i64>,
) -> Result<String> {
    listed(|name| {
        let handle = handles.get(name).map(|number| number << 1 | 1);
        let found = handle.or_else(|| values.get(name).copied());
        Ok(found.or_else(|| in_list(&OWN_OF_OPENMPI, name)))
    })
}

fn in_list(list: &[(&str, i64)], name: &str) -> Option<i64> {
    let found = list.iter().find(|(other, _)| *other == name);
    found.map(|(_, value)| *value)
}

fn listed(value: impl Fn(&str) -> Result<Option<i64>>) -> Result<String> {
    let mut out = format!(
        "//! {NOTICE}\n//!\n//! Constants of the C binding that the entry points need.\n\n\
         #![allow(dead_code)]\n\nuse core::ffi::c_int;\n\n"
    );
    for (name, kind) in NAMED {
        if let Some(value) = value(name)? {
            // A special address may be a negative number.
            let value = match kind {
                "usize" => value.cast_unsigned().to_string(),
                _ => value.to_string(),
            };
            let _ = writeln!(out, "pub const {name}: {kind} = {value};");
        }
    }
    Ok(out)
}

const NAMED: [(&str, &str); 43] = [
    ("MPI_STATUS_SIZE", "usize"),
    ("MPI_LB", "c_int"),
    ("MPI_UB", "c_int"),
    ("MPI_IN_PLACE", "usize"),
    ("MPI_BUFFER_AUTOMATIC", "usize"),
    ("MPI_UNWEIGHTED", "usize"),
    ("MPI_WEIGHTS_EMPTY", "usize"),
    ("MPI_COMM_DUP_FN", "usize"),
    ("MPI_MAX_PROCESSOR_NAME", "usize"),
    ("MPI_MAX_LIBRARY_VERSION_STRING", "usize"),
    ("MPI_MAX_ERROR_STRING", "usize"),
    ("MPI_MAX_OBJECT_NAME", "usize"),
    ("MPI_MAX_DATAREP_STRING", "usize"),
    ("MPI_MAX_PORT_NAME", "usize"),
    ("MPI_MAX_INFO_KEY", "usize"),
    ("MPI_MAX_INFO_VAL", "usize"),
    ("MPI_MAX_PSET_NAME_LEN", "usize"),
    ("MPI_CART", "c_int"),
    ("MPI_GRAPH", "c_int"),
    ("MPI_DIST_GRAPH", "c_int"),
    ("MPI_KEYVAL_INVALID", "c_int"),
    ("MPI_TAG_UB", "c_int"),
    ("MPI_IO", "c_int"),
    ("MPI_HOST", "c_int"),
    ("MPI_WTIME_IS_GLOBAL", "c_int"),
    ("MPI_APPNUM", "c_int"),
    ("MPI_LASTUSEDCODE", "c_int"),
    ("MPI_UNIVERSE_SIZE", "c_int"),
    ("MPI_WIN_BASE", "c_int"),
    ("MPI_WIN_DISP_UNIT", "c_int"),
    ("MPI_WIN_SIZE", "c_int"),
    ("MPI_WIN_CREATE_FLAVOR", "c_int"),
    ("MPI_WIN_MODEL", "c_int"),
    ("MPI_ERR_ARG", "c_int"),
    ("MPI_ERR_CONVERSION", "c_int"),
    ("MPI_ERR_IN_STATUS", "c_int"),
    ("MPI_ERR_BUFFER", "c_int"),
    ("MPI_BYTE", "c_int"),
    ("MPI_COMM_WORLD", "c_int"),
    ("MPI_COMM_SELF", "usize"),
    ("MPI_INFO_NULL", "usize"),
    ("MPI_ROOT", "c_int"),
    ("MPI_PROC_NULL", "c_int"),
];
