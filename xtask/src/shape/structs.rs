//! Types: how many fields they have, and how many of these are visible to other files.
//!
//! A type is plain data if none of its methods changes it: its fields may be visible, because there is no
//! invariant to break.

use std::collections::BTreeSet;

use syn::visit::Visit;

use crate::layers::is_test;

/// A type with more fields than this is listed.
pub const MANY: usize = 12;

/// A struct with named fields.
#[derive(Debug, PartialEq)]
pub struct Found {
    pub name: String,
    pub line: usize,
    pub fields: usize,
    /// Fields that are visible to other files.
    pub open: usize,
    /// Some method takes it by `&mut self`.
    pub changes_itself: bool,
}

/// The structs of a file.
pub fn of(file: &syn::File) -> Vec<Found> {
    let mut finder = Finder::default();
    finder.visit_file(file);
    let changing = finder.changing;
    finder
        .found
        .into_iter()
        .map(|found| Found {
            changes_itself: changing.contains(&found.name),
            ..found
        })
        .collect()
}

#[derive(Default)]
struct Finder {
    found: Vec<Found>,
    changing: BTreeSet<String>,
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_test(&module.attrs) {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        if let syn::Fields::Named(fields) = &item.fields {
            let open = fields
                .named
                .iter()
                .filter(|field| !matches!(field.vis, syn::Visibility::Inherited))
                .count();
            self.found.push(Found {
                name: item.ident.to_string(),
                line: item.ident.span().start().line,
                fields: fields.named.len(),
                open,
                changes_itself: false,
            });
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let syn::Type::Path(path) = &*item.self_ty else {
            return;
        };
        let changes = item.items.iter().any(|item| {
            matches!(item, syn::ImplItem::Fn(function) if function
                .sig
                .receiver()
                .is_some_and(|receiver| receiver.reference.is_some() && receiver.mutability.is_some()))
        });
        if changes && let Some(last) = path.path.segments.last() {
            self.changing.insert(last.ident.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_data_is_told_from_a_type_with_a_life() {
        let text = "pub struct Plain { pub a: u8, pub b: u8 }\nstruct Life { pub(crate) a: u8, b: u8 }\nimpl Life { fn go(&mut self) {} }\nimpl Plain { fn sum(&self) {} }";
        let found = of(&syn::parse_file(text).unwrap());
        let row = |found: &Found| (found.fields, found.open, found.changes_itself);
        assert_eq!(
            found.iter().map(row).collect::<Vec<_>>(),
            [(2, 2, false), (2, 1, true)]
        );
    }
}
