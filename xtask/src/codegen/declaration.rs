//! Declaration of a parameter in C, split into its parts: `const int ranges[][3]`.

use anyhow::{Context, Result};

/// The parts of a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// The pointer does not allow writing.
    pub constant: bool,
    /// The type without `const`, stars and brackets.
    pub base: String,
    /// Stars before the name.
    pub stars: usize,
    /// Whether `[]` follows the name.
    pub array: bool,
    /// The second dimension, if there is one.
    pub inner: Option<usize>,
    /// The name.
    pub name: String,
}

impl Declaration {
    /// Splits a declaration into its parts.
    pub fn parse(text: &str) -> Result<Self> {
        let (head, brackets) = text
            .split_once('[')
            .map_or((text, ""), |(head, rest)| (head, rest));
        let split = head
            .rfind([' ', '*'])
            .with_context(|| format!("`{text}` has no name"))?;
        let (types, name) = head.split_at(split + 1);
        let constant = types.trim_start().starts_with("const ");
        let base = types
            .trim()
            .trim_start_matches("const ")
            .trim_end_matches('*')
            .trim();
        let inner = brackets
            .rsplit_once('[')
            .and_then(|(_, inner)| inner.trim_end_matches(']').parse().ok());
        Ok(Self {
            constant,
            base: base.to_owned(),
            stars: types.matches('*').count(),
            array: !brackets.is_empty(),
            inner,
            name: name.to_owned(),
        })
    }

    /// Whether it is a scalar passed by value.
    pub fn by_value(&self) -> bool {
        self.stars == 0 && !self.array
    }

    /// Whether it is the address of a function.
    pub fn is_callback(&self) -> bool {
        self.base.ends_with("_function") || self.base.ends_with("_function_c")
    }

    /// The base type in Rust.
    fn base_in_rust(&self) -> &str {
        match self.base.as_str() {
            "int" | "MPI_T_cb_safety" | "MPI_T_source_order" => "c_int",
            "double" => "f64",
            "char" => "c_char",
            "void" => "c_void",
            base if base.starts_with("MPI_T_") => "c::ToolHandle",
            base => base,
        }
    }

    /// The type in Rust, as a parameter of an `extern "C"` function.
    pub fn in_rust(&self) -> String {
        if self.is_callback() {
            return "c::Callback".to_owned();
        }
        let base = self.base_in_rust();
        let base = match base.strip_prefix("MPI_") {
            Some(name) => format!("c::{name}"),
            None => base.to_owned(),
        };
        let element = match self.inner {
            Some(length) => format!("[{base}; {length}]"),
            None => base,
        };
        let mutability = if self.constant { "*const " } else { "*mut " };
        let pointers = self.stars + usize::from(self.array);
        // `const` applies to the innermost element; the library only reads the outer pointers anyway.
        format!("{}{element}", mutability.repeat(pointers))
    }

    /// The declaration in C, normalized.
    pub fn in_c(&self) -> String {
        let constant = if self.constant { "const " } else { "" };
        let stars = "*".repeat(self.stars);
        let brackets = match (self.array, self.inner) {
            (true, Some(inner)) => format!("[][{inner}]"),
            (true, None) => "[]".to_owned(),
            (false, _) => String::new(),
        };
        format!("{constant}{} {stars}{}{brackets}", self.base, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_survive_the_way_through() {
        for text in [
            "int count",
            "const void *buf",
            "const int sendcounts[]",
            "int ranges[][3]",
            "char *argv[]",
            "char ***argv",
            "MPI_User_function *user_fn",
        ] {
            assert_eq!(Declaration::parse(text).unwrap().in_c(), text);
        }
    }

    #[test]
    fn types_in_rust() {
        let rust = |text| Declaration::parse(text).unwrap().in_rust();
        assert_eq!(rust("int count"), "c_int");
        assert_eq!(rust("const MPI_Count counts[]"), "*const c::Count");
        assert_eq!(rust("int ranges[][3]"), "*mut [c_int; 3]");
        assert_eq!(rust("MPI_User_function *user_fn"), "c::Callback");
        assert_eq!(rust("MPI_T_enum *enumtype"), "*mut c::ToolHandle");
        assert!(Declaration::parse("int").is_err());
    }
}
