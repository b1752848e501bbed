//! `mpicc`, `mpicxx` and `mpifort`: the compiler with what programs need to find MPI.
//!
//! ```text
//!   prefix/bin/mpicc ──► $CC or cc, the arguments given,
//!                        -Iprefix/include  and, when it links,  -Lprefix/lib -Wl,-rpath,prefix/lib -lmpi_abi
//!   mpifort, mpif90, mpif77 ──► $FC or gfortran; besides these the folder of the compiler's modules, and -lmpi_fortran
//! ```
//!
//! `MPICH_CC`, `OMPI_CC` and `I_MPI_CC` (`…_CXX`, `…_FC`), which the wrappers of others know, come before `CC`.
//!
//! The prefix is found from the path of this program, so that an installation may be moved. Queries of build systems are
//! answered in the spellings of both MPICH (`-show`, `-compile_info`, `-link_info`) and Open MPI (`-showme`,
//! `-showme:compile`, `-showme:link`, …).

mod modules;

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Arguments after which no program is linked.
const STOPS_BEFORE_LINK: [&str; 6] = ["-c", "-S", "-E", "-M", "-MM", "-fsyntax-only"];

/// Options whose value is the next argument, which is therefore no input file.
const WITH_VALUE: [&str; 16] = [
    "-o",
    "-x",
    "-J",
    "-I",
    "-L",
    "-D",
    "-U",
    "-l",
    "-include",
    "-isystem",
    "-idirafter",
    "-iquote",
    "-MF",
    "-MT",
    "-MQ",
    "-Xlinker",
];

/// The task of the wrapper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ask {
    /// To compile.
    Compile,
    /// To print the whole command.
    Show,
    /// Print the compiler command for compiling.
    CompileInfo,
    /// Print the compiler command for linking.
    LinkInfo,
    /// To print one component.
    Component(Component),
}

/// A component of the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Component {
    Command,
    Compile,
    Link,
    IncludeFolders,
    LibraryFolders,
    Libraries,
    Version,
}

/// The languages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Language {
    C,
    Cxx,
    Fortran,
}

/// An installation: where headers and library are.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Prefix(PathBuf);

/// What one language needs of an installation.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Parts {
    /// Folders of headers, and of modules.
    includes: Vec<PathBuf>,
    libraries: PathBuf,
    names: &'static [&'static str],
}

impl Prefix {
    /// The prefix of the installation that a program belongs to.
    fn of(program: &Path) -> Result<Self, String> {
        let prefix = program
            .parent()
            .and_then(Path::parent)
            .unwrap_or(Path::new("/"));
        let header = prefix.join("include/mpi.h");
        if header.exists() {
            return Ok(Self(prefix.to_owned()));
        }
        Err(format!(
            "{} does not exist; call the compiler wrapper in the folder bin of an installation, made by `cargo xtask dist`",
            header.display()
        ))
    }

    /// What a language needs; for Fortran the modules are made if this compiler has none yet.
    fn parts(&self, language: Language, compiler: &[OsString]) -> Result<Parts, String> {
        let mut includes = vec![self.0.join("include")];
        if language == Language::Fortran {
            includes.push(modules::of(&self.0, compiler)?);
        }
        Ok(Parts {
            includes,
            libraries: self.0.join("lib"),
            names: language.libraries(),
        })
    }
}

impl Parts {
    fn compile(&self) -> Vec<OsString> {
        self.includes
            .iter()
            .map(|folder| joined("-I", folder))
            .collect()
    }

    fn link(&self) -> Vec<OsString> {
        let mut words = vec![
            joined("-L", &self.libraries),
            joined("-Wl,-rpath,", &self.libraries),
        ];
        words.extend(self.names.iter().map(|name| format!("-l{name}").into()));
        words
    }
}

fn joined(option: &str, path: &Path) -> OsString {
    let mut text = OsString::from(option);
    text.push(path);
    text
}

/// Runs the wrapper `name` (`mpicc`, `mpicxx`, `mpic++`, `mpiCC`, `mpifort`, `mpif90`, `mpif77`) with its arguments, without its own name.
/// Answers the exit code, unless the compiler has taken this process over.
pub fn main(name: &str, arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return complain(name, &format!("this program cannot be found: {error}")),
    };
    let prefix = match Prefix::of(&program) {
        Ok(prefix) => prefix,
        Err(text) => return complain(name, &text),
    };
    let call = Call::parse(name, arguments, &|variable| std::env::var_os(variable));
    let parts = match prefix.parts(call.language, &call.compiler) {
        Ok(parts) => parts,
        Err(text) => return complain(name, &text),
    };
    if call.ask != Ask::Compile {
        return crate::user_output::answer(format_args!("{}\n", call.answer(&parts)));
    }
    let command = call.command(&parts);
    let error = Command::new(&command[0]).args(&command[1..]).exec();
    complain(
        name,
        &format!(
            "the compiler {} cannot be started: {error}; install it, or name another in the variable {}",
            command[0].display(),
            call.language.variable()
        ),
    )
}

fn complain(name: &str, text: &str) -> u8 {
    crate::user_output::tell(format_args!("{name}: {text}"));
    1
}

impl Language {
    const fn variable(self) -> &'static str {
        match self {
            Self::C => "CC",
            Self::Cxx => "CXX",
            Self::Fortran => "FC",
        }
    }

    const fn compiler(self) -> &'static str {
        match self {
            Self::C => "cc",
            Self::Cxx => "c++",
            Self::Fortran => "gfortran",
        }
    }

    const fn libraries(self) -> &'static [&'static str] {
        match self {
            Self::C | Self::Cxx => &["mpi_abi"],
            Self::Fortran => &["mpi_fortran", "mpi_abi"],
        }
    }

    fn of_wrapper(name: &str) -> Self {
        if name.starts_with("mpif") {
            Self::Fortran
        } else if name.contains("cxx") || name.contains("++") || name.contains("CC") {
            Self::Cxx
        } else {
            Self::C
        }
    }
}

/// A call of the wrapper, understood.
#[derive(Debug)]
struct Call {
    language: Language,
    /// The compiler; the variable may hold options after it.
    compiler: Vec<OsString>,
    arguments: Vec<OsString>,
    ask: Ask,
}

impl Call {
    fn parse(
        name: &str,
        arguments: impl IntoIterator<Item = OsString>,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Self {
        let language = Language::of_wrapper(name);
        let mut call = Self {
            language,
            compiler: compiler(language, variable),
            arguments: Vec::new(),
            ask: Ask::Compile,
        };
        for argument in arguments {
            let text = argument.to_string_lossy();
            match (
                question(&text),
                ["-cc=", "-cxx=", "-fc=", "-f90="]
                    .iter()
                    .find_map(|option| text.strip_prefix(option)),
            ) {
                (Some(ask), _) => call.ask = ask,
                (None, Some(other)) => call.compiler = vec![other.into()],
                (None, None) => call.arguments.push(argument),
            }
        }
        call
    }

    /// Whether a program or library is linked: there are inputs, and nothing stops before.
    fn links(&self) -> bool {
        let mut is_value = false;
        let mut inputs = false;
        for argument in &self.arguments {
            let text = argument.to_string_lossy();
            if std::mem::take(&mut is_value) {
                continue;
            }
            if STOPS_BEFORE_LINK.contains(&&*text) {
                return false;
            }
            is_value = WITH_VALUE.contains(&&*text);
            inputs |= !text.starts_with('-') || text == "-" || text.starts_with("-l");
        }
        inputs
    }

    /// The command that does what was asked.
    fn command(&self, parts: &Parts) -> Vec<OsString> {
        let mut command = self.compiler.clone();
        command.extend_from_slice(&self.arguments);
        command.extend(parts.compile());
        if self.links() {
            command.extend(parts.link());
        }
        command
    }

    /// The answer to a question.
    fn answer(&self, parts: &Parts) -> String {
        let words = match self.ask {
            // Without inputs, `-show` is asked by build systems that want to see all there is.
            Ask::Compile | Ask::Show => {
                let mut command = self.command(parts);
                let stops = self
                    .arguments
                    .iter()
                    .any(|one| STOPS_BEFORE_LINK.contains(&&*one.to_string_lossy()));
                if !self.links() && !stops {
                    command.extend(parts.link());
                }
                command
            }
            Ask::CompileInfo => [self.compiler.clone(), parts.compile()].concat(),
            Ask::LinkInfo => [self.compiler.clone(), parts.link()].concat(),
            Ask::Component(Component::Command) => self.compiler.clone(),
            Ask::Component(Component::Compile) => parts.compile(),
            Ask::Component(Component::Link) => parts.link(),
            Ask::Component(Component::IncludeFolders) => {
                parts.includes.iter().map(OsString::from).collect()
            }
            Ask::Component(Component::LibraryFolders) => vec![parts.libraries.clone().into()],
            Ask::Component(Component::Libraries) => {
                parts.names.iter().map(OsString::from).collect()
            }
            Ask::Component(Component::Version) => {
                return format!("Weft {}, MPI 5.0 ABI", env!("CARGO_PKG_VERSION"));
            }
        };
        let quoted: Vec<String> = words.iter().map(|part| quoted(part)).collect();
        quoted.join(" ")
    }
}

/// The question that an argument asks, if it does.
fn question(text: &str) -> Option<Ask> {
    Some(match text {
        "-show" | "--show" | "-showme" | "--showme" | "-show_info" | "-show-info" => Ask::Show,
        "-compile_info" | "-compile-info" => Ask::CompileInfo,
        "-link_info" | "-link-info" => Ask::LinkInfo,
        "-showme:command" | "--showme:command" => Ask::Component(Component::Command),
        "-showme:compile" | "--showme:compile" => Ask::Component(Component::Compile),
        "-showme:link" | "--showme:link" => Ask::Component(Component::Link),
        "-showme:incdirs" | "--showme:incdirs" => Ask::Component(Component::IncludeFolders),
        "-showme:libdirs" | "--showme:libdirs" => Ask::Component(Component::LibraryFolders),
        "-showme:libs" | "--showme:libs" => Ask::Component(Component::Libraries),
        "-showme:version" | "--showme:version" => Ask::Component(Component::Version),
        _ => return None,
    })
}

/// Beginnings of the variables in which other implementations look for the compiler that their wrappers call.
const OF_OTHERS: [&str; 3] = ["MPICH_", "OMPI_", "I_MPI_"];

/// The names of wrappers begin with these; a compiler's do not.
const WRAPPERS: [&str; 5] = ["mpicc", "mpicxx", "mpic++", "mpiCC", "mpif"];

/// The compiler of a language: what a variable of wrappers says, or else that of compilers, unless this names a wrapper, perhaps
/// behind another command (`ccache mpicc`): it would call itself for ever.
fn compiler(language: Language, variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<OsString> {
    let name = language.variable();
    let of_others = OF_OTHERS.iter().map(|start| format!("{start}{name}"));
    let mut said = of_others.chain([name.to_owned()]).filter_map(|name| {
        let words = variable(&name)?;
        let words = words.to_str()?.split_whitespace();
        Some(words.map(OsString::from).collect::<Vec<_>>())
    });
    let is_wrapper = |word: &OsString| {
        let name = Path::new(word).file_name().map(OsStr::to_string_lossy);
        name.is_some_and(|name| WRAPPERS.iter().any(|wrapper| name.starts_with(wrapper)))
    };
    said.find(|words| !words.is_empty() && !words.iter().any(is_wrapper))
        .unwrap_or_else(|| vec![language.compiler().into()])
}

/// A word as a shell reads it.
fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,+@%".contains(letter);
    if !text.is_empty() && text.chars().all(plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, arguments: &[&str], cc: Option<&str>) -> Call {
        Call::parse(name, arguments.iter().map(OsString::from), &|variable| {
            cc.filter(|_| variable == "CC").map(OsString::from)
        })
    }

    fn parts(name: &str) -> Parts {
        let mut includes = vec![PathBuf::from("/opt/weft/include")];
        let language = Language::of_wrapper(name);
        if language == Language::Fortran {
            includes.push("/opt/weft/lib/fortran/X".into());
        }
        Parts {
            includes,
            libraries: "/opt/weft/lib".into(),
            names: language.libraries(),
        }
    }

    fn line(name: &str, arguments: &[&str], cc: Option<&str>) -> String {
        let words: Vec<String> = call(name, arguments, cc)
            .command(&parts(name))
            .iter()
            .map(|word| quoted(word))
            .collect();
        words.join(" ")
    }

    #[test]
    fn compiles_and_links() {
        let link = "-L/opt/weft/lib -Wl,-rpath,/opt/weft/lib -lmpi_abi";
        assert_eq!(
            line("mpicc", &["a.c", "-o", "a"], None),
            format!("cc a.c -o a -I/opt/weft/include {link}")
        );
        assert_eq!(
            line("mpicxx", &["a.o"], None),
            format!("c++ a.o -I/opt/weft/include {link}")
        );
        assert_eq!(
            line("mpicc", &["-c", "a.c"], None),
            "cc -c a.c -I/opt/weft/include"
        );
        assert_eq!(
            line("mpicc", &["-o", "-E", "a.c"], None),
            format!("cc -o -E a.c -I/opt/weft/include {link}")
        );
        assert_eq!(
            line("mpicc", &["-v"], None),
            "cc -v -I/opt/weft/include",
            "nothing to link"
        );
    }

    #[test]
    fn fortran_has_modules_and_a_library_of_its_own() {
        let include = "-I/opt/weft/include -I/opt/weft/lib/fortran/X";
        let link = "-L/opt/weft/lib -Wl,-rpath,/opt/weft/lib -lmpi_fortran -lmpi_abi";
        for name in ["mpifort", "mpif90", "mpif77"] {
            assert_eq!(
                line(name, &["a.f90", "-o", "a"], Some("icx")),
                format!("gfortran a.f90 -o a {include} {link}")
            );
        }
        assert_eq!(
            line("mpifort", &["-fc=flang", "-c", "-J", "m", "a.f90"], None),
            format!("flang -c -J m a.f90 {include}")
        );
        let answer = call("mpifort", &["-showme:incdirs"], None).answer(&parts("mpifort"));
        assert_eq!(answer, "/opt/weft/include /opt/weft/lib/fortran/X");
    }

    #[test]
    fn the_variable_names_the_compiler() {
        assert!(
            line("mpicc", &["-c", "a.c"], Some("ccache clang")).starts_with("ccache clang -c a.c")
        );
        assert!(
            line("mpicc", &["-c", "a.c"], Some("/x/bin/mpicc")).starts_with("cc -c"),
            "never itself"
        );
        assert!(line("mpicc", &["-cc=icx", "-c", "a.c"], None).starts_with("icx -c"));
    }

    #[test]
    fn variables_of_other_wrappers_count_and_no_wrapper_calls_itself() {
        let compiler = |name: &str, set: &[(&str, &str)]| {
            let value = |variable: &str| {
                let found = set.iter().find(|(name, _)| *name == variable);
                found.map(|(_, value)| OsString::from(value))
            };
            Call::parse(name, [], &value).compiler
        };
        assert_eq!(
            compiler("mpicc", &[("OMPI_CC", "clang"), ("CC", "gcc")]),
            ["clang"]
        );
        assert_eq!(
            compiler("mpicc", &[("MPICH_CC", "icx -O2")]),
            ["icx", "-O2"]
        );
        assert_eq!(
            compiler("mpicxx", &[("I_MPI_CXX", "icpx"), ("OMPI_CC", "no")]),
            ["icpx"]
        );
        assert_eq!(compiler("mpif90", &[("OMPI_FC", "flang")]), ["flang"]);
        for wrapper in [
            "mpicc",
            "/opt/weft/bin/mpicc",
            "ccache mpicc",
            "env X=1 mpic++ -g",
        ] {
            assert_eq!(compiler("mpicc", &[("CC", wrapper)]), ["cc"], "{wrapper}");
            let both = [("OMPI_CC", wrapper), ("CC", "gcc")];
            assert_eq!(compiler("mpicc", &both), ["gcc"], "{wrapper}");
        }
    }

    #[test]
    fn answers_both_families() {
        let answer = |arguments: &[&str]| call("mpicc", arguments, None).answer(&parts("mpicc"));
        let whole = "cc -I/opt/weft/include -L/opt/weft/lib -Wl,-rpath,/opt/weft/lib -lmpi_abi";
        for spelling in ["-show", "-showme", "--showme", "-show_info"] {
            assert_eq!(answer(&[spelling]), whole);
        }
        assert_eq!(answer(&["-show", "-c"]), "cc -c -I/opt/weft/include");
        assert_eq!(answer(&["-showme:compile"]), "-I/opt/weft/include");
        assert_eq!(
            answer(&["-showme:link"]),
            "-L/opt/weft/lib -Wl,-rpath,/opt/weft/lib -lmpi_abi"
        );
        assert_eq!(answer(&["-showme:incdirs"]), "/opt/weft/include");
        assert_eq!(answer(&["-showme:libs"]), "mpi_abi");
        assert_eq!(answer(&["-compile_info"]), "cc -I/opt/weft/include");
        assert_eq!(
            answer(&["-link_info"]),
            "cc -L/opt/weft/lib -Wl,-rpath,/opt/weft/lib -lmpi_abi"
        );
    }

    #[test]
    fn words_are_quoted() {
        assert_eq!(quoted(OsStr::new("-I/a b")), "'-I/a b'");
        assert_eq!(quoted(OsStr::new("it's")), r"'it'\''s'");
    }

    #[test]
    fn an_installation_without_header_is_refused() {
        let error = Prefix::of(Path::new("/nonexistent/bin/mpicc")).unwrap_err();
        assert!(error.contains("/nonexistent/include/mpi.h"), "{error}");
    }
}
