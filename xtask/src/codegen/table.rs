//! Tables, read into values.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::collective::{self, Collective, Groups};
use super::declaration::Declaration;

/// All tables.
pub struct Tables {
    /// Functions by the name of their group.
    pub groups: BTreeMap<String, Vec<Function>>,
    pub families: Vec<Family>,
    /// In the order of their handles.
    pub datatypes: Vec<(String, Datatype)>,
    /// Other name and name of a datatype.
    pub other_names: Vec<(String, String)>,
    /// In the order of their values.
    pub errors: Vec<(String, ErrorClass)>,
    pub callbacks: Vec<Callback>,
}

/// A function of the C binding.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Function {
    pub name: String,
    /// Whether the row defines the three forms of a collective.
    #[serde(default)]
    collective: bool,
    /// Which of these forms this function is. This is not a column: the row is expanded when it is loaded.
    #[serde(skip)]
    pub form_of: Option<Collective>,
    #[serde(default)]
    pub large: bool,
    pub returns: Option<String>,
    #[serde(default)]
    pub anytime: bool,
    /// Whether there is a short path for calls that complete at once, which is tried first.
    #[serde(default)]
    pub at_once: bool,
    /// Whether there is another such way, which needs saved registers.
    #[serde(default)]
    pub at_once_long: bool,
    /// The function that informs the other ranks of a wrong argument on this one, for calls in which all take
    /// part before anything else is known.
    pub refused: Option<String>,
    pub note: Option<String>,
    #[serde(default)]
    pub parameters: Vec<Parameter>,
}

/// A parameter of a function.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    c: String,
    large: Option<String>,
    only: Option<String>,
    pub kind: String,
    pub direction: String,
    pub length: Option<String>,
    pub check: Option<String>,
}

/// Constants of one C type.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    pub title: String,
    pub c: String,
    values: toml::Table,
}

/// A predefined datatype.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Datatype {
    pub handle: i64,
    pub size: Option<usize>,
    pub stands_for: Option<String>,
    pub engine: Option<String>,
}

/// An error class.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorClass {
    pub value: i64,
    pub sentence: String,
}

/// A type of function that programs define.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Callback {
    pub name: String,
    pub returns: String,
    pub arguments: String,
    pub also: Option<String>,
}

/// One of the two forms of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Counts are `int`.
    Small,
    /// Counts are `MPI_Count`.
    Large,
}

impl Tables {
    /// Reads all tables.
    pub fn load(folder: &Path) -> Result<Self> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Functions {
            nonblocking_group: Option<String>,
            persistent_group: Option<String>,
            function: Vec<Function>,
        }
        #[derive(Deserialize)]
        struct Families {
            family: Vec<Family>,
        }
        #[derive(Deserialize)]
        struct Datatypes {
            other_names: BTreeMap<String, String>,
            #[serde(flatten)]
            rows: BTreeMap<String, Datatype>,
        }
        #[derive(Deserialize)]
        struct Callbacks {
            callback: Vec<Callback>,
        }
        let mut groups: BTreeMap<String, Vec<Function>> = BTreeMap::new();
        for entry in fs::read_dir(folder.join("functions"))? {
            let path = entry?.path();
            let stem = path
                .file_stem()
                .context("a table has a name")?
                .to_string_lossy()
                .into_owned();
            let rows: Functions = read(&path)?;
            let homes = Groups {
                blocking: &stem,
                nonblocking: rows.nonblocking_group.as_deref().unwrap_or(&stem),
                persistent: rows.persistent_group.as_deref().unwrap_or(&stem),
            };
            for row in rows.function {
                let functions = row
                    .check()
                    .and_then(|()| row.functions(&homes))
                    .with_context(|| format!("{}: {}", path.display(), row.name))?;
                for (group, function) in functions {
                    groups.entry(group).or_default().push(function);
                }
            }
        }
        for functions in groups.values_mut() {
            functions.sort_by(|one, other| one.name.cmp(&other.name));
        }
        let Families { family } = read(&folder.join("constants.toml"))?;
        let Datatypes { other_names, rows } = read(&folder.join("datatypes.toml"))?;
        let mut datatypes: Vec<_> = rows.into_iter().collect();
        datatypes.sort_by_key(|(_, row)| row.handle);
        let errors: BTreeMap<String, ErrorClass> = read(&folder.join("errors.toml"))?;
        let mut errors: Vec<_> = errors.into_iter().collect();
        errors.sort_by_key(|(_, row)| row.value);
        let Callbacks { callback } = read(&folder.join("callbacks.toml"))?;
        Ok(Self {
            groups,
            families: family,
            datatypes,
            other_names: other_names.into_iter().collect(),
            errors,
            callbacks: callback,
        })
    }

    /// All functions by name, with their groups.
    pub fn functions(&self) -> Vec<(&str, &Function)> {
        let mut all: Vec<_> = self
            .groups
            .iter()
            .flat_map(|(group, functions)| {
                functions
                    .iter()
                    .map(move |function| (group.as_str(), function))
            })
            .collect();
        all.sort_by(|one, other| one.1.name.cmp(&other.1.name));
        all
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("reading {}", path.display()))
}

impl Function {
    /// Whether it returns an address of memory to the program. In Fortran that is an integer or a
    /// `type(c_ptr)`.
    pub fn gives_an_address(&self) -> bool {
        self.parameters.iter().any(|one| one.kind == "C_BUFFER")
    }

    fn check(&self) -> Result<()> {
        ensure!(
            self.name.starts_with("MPI_") || self.is_extension(),
            "names begin with MPI_, or MPIX_ for what is no standard"
        );
        for parameter in &self.parameters {
            ensure!(
                ["in", "out", "inout"].contains(&parameter.direction.as_str()),
                "`direction` is in, out or inout"
            );
            for form in self.forms() {
                if let Some(text) = parameter.text(form).filter(|text| *text != "...") {
                    let parsed = Declaration::parse(text)?;
                    ensure!(
                        parsed.in_c() == text,
                        "write `{text}` as `{}`",
                        parsed.in_c()
                    );
                }
            }
        }
        Ok(())
    }

    /// Whether it is not a function of the standard.
    pub fn is_extension(&self) -> bool {
        self.name.starts_with("MPIX_")
    }

    /// The functions that the row defines, each with its group.
    fn functions(&self, groups: &Groups) -> Result<Vec<(String, Self)>> {
        if self.collective {
            collective::forms(self, groups)
        } else {
            Ok(vec![(groups.blocking.to_owned(), self.clone())])
        }
    }

    /// The name of the hand-written function: that in C without prefix, in lower case. The forms of a
    /// collective share one.
    pub fn call(&self) -> String {
        match &self.form_of {
            Some(form) => form.call.clone(),
            None => {
                let prefix = if self.is_extension() { "MPIX_" } else { "MPI_" };
                self.name[prefix.len()..].to_lowercase()
            }
        }
    }

    /// The group whose calls hold that function; `group` is the one of this function.
    pub fn call_group<'a>(&'a self, group: &'a str) -> &'a str {
        self.form_of.as_ref().map_or(group, |form| &form.group)
    }

    /// The parameters that the hand-written function receives.
    pub fn call_parameters(&self) -> &[Parameter] {
        match &self.form_of {
            Some(form) => &self.parameters[..form.parameters],
            None => &self.parameters,
        }
    }

    /// The forms it has.
    pub fn forms(&self) -> impl Iterator<Item = Form> + use<> {
        let large = self.large.then_some(Form::Large);
        std::iter::once(Form::Small).chain(large)
    }

    /// The C name of a form.
    pub fn name_of(&self, form: Form) -> String {
        match form {
            Form::Small => self.name.clone(),
            Form::Large => format!("{}_c", self.name),
        }
    }

    /// The type that it returns in C.
    pub fn returns_in_c(&self) -> &str {
        self.returns.as_deref().unwrap_or("int")
    }

    /// The prototype in C, without semicolon.
    pub fn prototype(&self, form: Form, prefix: &str) -> String {
        let parameters: Vec<String> = self
            .parameters
            .iter()
            .filter_map(|parameter| parameter.in_header(form))
            .collect();
        let parameters = if parameters.is_empty() {
            "void".to_owned()
        } else {
            parameters.join(", ")
        };
        format!(
            "{} {prefix}{}({parameters})",
            self.returns_in_c(),
            self.name_of(form)
        )
    }
}

impl Parameter {
    /// A parameter that is the same in both forms.
    pub fn new(c: &str, kind: &str, direction: &str) -> Self {
        Self {
            c: c.to_owned(),
            large: None,
            only: None,
            kind: kind.to_owned(),
            direction: direction.to_owned(),
            length: None,
            check: None,
        }
    }

    fn text(&self, form: Form) -> Option<&str> {
        match form {
            Form::Small if self.only.is_some() => None,
            Form::Large => Some(self.large.as_deref().unwrap_or(&self.c)),
            Form::Small => Some(&self.c),
        }
    }

    /// The declaration in the header. There, weights are addresses instead of arrays, which is the same type:
    /// for an array, compilers expect an element, and warn about `MPI_UNWEIGHTED`.
    fn in_header(&self, form: Form) -> Option<String> {
        let text = self.text(form)?;
        let array = text.strip_suffix("[]").filter(|_| self.kind == "WEIGHT");
        Some(match array.and_then(|array| array.rsplit_once(' ')) {
            Some((base, name)) => format!("{base} *{name}"),
            None => text.to_owned(),
        })
    }

    /// The declaration in a form; `None` if the form does not have the parameter, or it is `...`.
    pub fn declaration(&self, form: Form) -> Option<Declaration> {
        let text = self.text(form).filter(|text| *text != "...")?;
        Some(Declaration::parse(text).expect("checked when it was loaded"))
    }

    /// The declaration in the large form, for code that both forms share.
    pub fn widest(&self) -> Option<Declaration> {
        self.declaration(Form::Large)
    }

    /// Whether its type differs between the two forms.
    pub fn is_poly(&self) -> bool {
        self.large.is_some()
    }

    /// Whether the small form lacks it.
    pub fn only_large(&self) -> bool {
        self.only.is_some()
    }
}

impl Family {
    /// Names and values, in the order of the table.
    pub fn values(&self) -> impl Iterator<Item = (&str, i64)> {
        self.values
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_integer().unwrap_or_default()))
    }
}
