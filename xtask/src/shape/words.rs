//! Words that are not good names, from `tables/words.toml`: where they occur in names that the crate itself
//! defines (types, functions, fields, variants, modules).

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use syn::visit::Visit;

use crate::layers::is_test;

/// A word, and what to use instead.
#[derive(serde::Deserialize)]
pub struct Words {
    /// Names as a whole, or single words of a name that consists of several.
    instead: BTreeMap<String, Instead>,
}

/// What to use instead of a word.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Instead {
    /// This, in every room.
    Everywhere(String),
    /// This, except in rooms where the word is the technical term.
    But {
        /// What to use.
        r#use: String,
        /// The rooms where the word is the technical term.
        not_in: Vec<String>,
    },
}

impl Instead {
    fn in_room(&self, room: &str) -> Option<&str> {
        match self {
            Self::Everywhere(instead) => Some(instead),
            Self::But { r#use, not_in } => (!not_in.iter().any(|of| of == room)).then_some(r#use),
        }
    }
}

impl Words {
    /// Reads the table.
    pub fn read(root: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(root.join("tables/words.toml"))
            .context("reading tables/words.toml")?;
        toml::from_str(&text).context("tables/words.toml")
    }

    /// Names of a file of this room that the table lists: line, name, what to use instead.
    pub fn in_file(&self, room: &str, file: &syn::File) -> Vec<(usize, String, String)> {
        let mut names = Names::default();
        names.visit_file(file);
        names
            .found
            .into_iter()
            .filter_map(|(line, name)| Some((line, self.instead_of(room, &name)?, name)))
            .map(|(line, instead, name)| (line, name, instead))
            .collect()
    }

    fn instead_of(&self, room: &str, name: &str) -> Option<String> {
        let whole = self.instead.get(name);
        let parts = parts(name);
        let part = || {
            let (_, instead) = self.instead.iter().find(|(word, _)| {
                word.chars().all(|c| c.is_ascii_lowercase())
                    && parts.iter().any(|part| part == *word)
            })?;
            Some(instead)
        };
        whole
            .or_else(part)
            .and_then(|instead| instead.in_room(room))
            .map(str::to_owned)
    }
}

/// The words of a name, lower case: the same for `leave_wheel` and `LeaveWheel`.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for c in name.chars() {
        if c == '_' || c.is_ascii_uppercase() {
            parts.push(String::new());
        }
        if c != '_'
            && let Some(last) = parts.last_mut()
        {
            last.push(c.to_ascii_lowercase());
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[derive(Default)]
struct Names {
    found: Vec<(usize, String)>,
}

impl Names {
    fn add(&mut self, name: &syn::Ident) {
        self.found
            .push((name.span().start().line, name.to_string()));
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            self.add(&item.ident);
            syn::visit::visit_item_mod(self, item);
        }
    }
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.add(&item.ident);
        syn::visit::visit_item_struct(self, item);
    }
    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.add(&item.ident);
        syn::visit::visit_item_enum(self, item);
    }
    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.add(&item.ident);
        syn::visit::visit_item_trait(self, item);
    }
    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.add(&item.ident);
    }
    fn visit_signature(&mut self, item: &'ast syn::Signature) {
        self.add(&item.ident);
    }
    fn visit_field(&mut self, field: &'ast syn::Field) {
        field.ident.iter().for_each(|name| self.add(name));
    }
    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.add(&variant.ident);
        syn::visit::visit_variant(self, variant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_names_and_words_of_names_are_found() {
        let words: Words = toml::from_str(
            "[instead]\nPlace = { use = \"what it is\", not_in = [\"sys\"] }\nwheel = \"progress\"",
        )
        .unwrap();
        let file = syn::parse_file(
            "struct Place; struct Placed; fn leave_wheel() {} struct WheelTurn; struct Free(u8);",
        )
        .unwrap();
        let names = |room| -> Vec<String> {
            words
                .in_file(room, &file)
                .into_iter()
                .map(|(_, name, _)| name)
                .collect()
        };
        assert_eq!(names("launch"), ["Place", "leave_wheel", "WheelTurn"]);
        assert_eq!(names("sys"), ["leave_wheel", "WheelTurn"]);
    }
}
