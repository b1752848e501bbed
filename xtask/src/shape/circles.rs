//! Circles: files of a crate that all need each other, so that none can be understood alone.
//!
//! A file needs another if it names an item of it by a path of the crate. Names that a module re-exports
//! (`pub use`) lead to the file that has the item. A module that declares another does not need it for that.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::visit::Visit;

use super::Source;
use crate::layers::is_test;

/// The path of a module from the crate's root.
type Module = Vec<String>;

/// All circles of three files or more, the largest first.
pub fn of(sources: &[Source]) -> Vec<Vec<String>> {
    let modules: BTreeMap<Module, usize> = sources
        .iter()
        .enumerate()
        .map(|(index, source)| (module_of(&source.path), index))
        .collect();
    let passed_on: BTreeMap<&Module, BTreeMap<String, Module>> = modules
        .iter()
        .map(|(module, index)| (module, names_passed_on(module, &sources[*index].syntax)))
        .collect();
    let resolve = |path: &[String]| -> Option<usize> {
        let mut module = Module::new();
        let mut rest: Vec<String> = path.to_vec();
        // Each step goes to a submodule or follows a name; no chain of names is longer than this.
        for _ in 0..32 {
            let Some(next) = rest.first().cloned() else {
                break;
            };
            let mut below = module.clone();
            below.push(next.clone());
            if modules.contains_key(&below) {
                module = below;
                rest.remove(0);
            } else if let Some(to) = passed_on.get(&module).and_then(|names| names.get(&next)) {
                rest.splice(0..1, to.iter().cloned());
                module = Module::new();
            } else {
                break;
            }
        }
        // A path that ends at a module names no item of it.
        (!rest.is_empty()).then(|| modules.get(&module).copied())?
    };
    let needs: Vec<BTreeSet<usize>> = sources
        .iter()
        .enumerate()
        .map(|(index, source)| {
            let mut paths = Paths::new(module_of(&source.path));
            paths.visit_file(&source.syntax);
            let mut needed: BTreeSet<usize> = paths
                .found
                .iter()
                .filter_map(|path| resolve(path))
                .collect();
            needed.remove(&index);
            needed
        })
        .collect();
    let mut circles: Vec<Vec<String>> = components(&needs)
        .into_iter()
        .filter(|circle| circle.len() >= 3)
        .map(|circle| {
            circle
                .iter()
                .map(|index| sources[*index].path.display().to_string())
                .collect()
        })
        .collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

fn module_of(file: &Path) -> Module {
    let mut module: Module = file
        .with_extension("")
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    if matches!(
        module.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        module.pop();
    }
    module
}

/// Names that a module imports or re-exports, and the paths to which they lead.
fn names_passed_on(module: &Module, file: &syn::File) -> BTreeMap<String, Module> {
    let mut names = BTreeMap::new();
    for item in &file.items {
        if let syn::Item::Use(item) = item
            && !is_test(&item.attrs)
            && !matches!(item.vis, syn::Visibility::Inherited)
        {
            let mut leaves = Vec::new();
            flatten(&item.tree, Module::new(), &mut leaves);
            for (path, name) in leaves {
                if let Some(path) = absolute(module, &path) {
                    names.insert(name, path);
                }
            }
        }
    }
    names
}

/// The paths of a use tree, each with the name that it brings in.
fn flatten(tree: &syn::UseTree, before: Module, leaves: &mut Vec<(Module, String)>) {
    match tree {
        syn::UseTree::Path(path) => {
            let mut before = before;
            before.push(path.ident.to_string());
            flatten(&path.tree, before, leaves);
        }
        syn::UseTree::Name(name) => {
            let mut path = before;
            if name.ident != "self" {
                path.push(name.ident.to_string());
            }
            leaves.push((path.clone(), path.last().cloned().unwrap_or_default()));
        }
        syn::UseTree::Rename(rename) => {
            let mut path = before;
            path.push(rename.ident.to_string());
            leaves.push((path, rename.rename.to_string()));
        }
        syn::UseTree::Glob(_) => {
            leaves.push(([before, vec!["*".to_owned()]].concat(), "*".to_owned()))
        }
        syn::UseTree::Group(group) => group
            .items
            .iter()
            .for_each(|tree| flatten(tree, before.clone(), leaves)),
    }
}

/// A path from the crate's root; `None` for another crate's.
fn absolute(module: &Module, path: &[String]) -> Option<Module> {
    let mut base = match path.first()?.as_str() {
        "crate" => Module::new(),
        "self" => module.clone(),
        "super" => module.split_last()?.1.to_vec(),
        _ => return None,
    };
    for part in &path[1..] {
        if part == "super" {
            base.pop();
        } else {
            base.push(part.clone());
        }
    }
    Some(base)
}

/// The paths of this crate that a file names.
struct Paths {
    module: Module,
    found: BTreeSet<Module>,
}

impl Paths {
    fn new(module: Module) -> Self {
        Self {
            module,
            found: BTreeSet::new(),
        }
    }

    fn add(&mut self, path: &[String]) {
        self.found.extend(absolute(&self.module, path));
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_test(&module.attrs) {
            syn::visit::visit_item_mod(self, module);
        }
    }
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        // A re-export is not a need.
        if is_test(&item.attrs) || !matches!(item.vis, syn::Visibility::Inherited) {
            return;
        }
        let mut leaves = Vec::new();
        flatten(&item.tree, Module::new(), &mut leaves);
        leaves.iter().for_each(|(path, _)| self.add(path));
    }
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path
            .segments
            .iter()
            .map(|part| part.ident.to_string())
            .collect();
        if parts.len() > 1 {
            self.add(&parts);
        }
        syn::visit::visit_path(self, path);
    }
}

/// Strongly connected components, by which files reach each other.
fn components(needs: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let reached: Vec<BTreeSet<usize>> = (0..needs.len())
        .map(|from| {
            let mut seen = BTreeSet::new();
            let mut open: Vec<usize> = needs[from].iter().copied().collect();
            while let Some(next) = open.pop() {
                if seen.insert(next) {
                    open.extend(&needs[next]);
                }
            }
            seen
        })
        .collect();
    let mut taken = BTreeSet::<usize>::new();
    let mut found = Vec::new();
    for from in 0..needs.len() {
        if taken.contains(&from) {
            continue;
        }
        let circle: Vec<usize> = (0..needs.len())
            .filter(|to| {
                *to == from || (reached[from].contains(to) && reached[*to].contains(&from))
            })
            .collect();
        taken.extend(&circle);
        found.push(circle);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source {
            path: path.into(),
            lines: text.lines().count(),
            syntax: syn::parse_file(text).unwrap(),
        }
    }

    #[test]
    fn files_that_need_each_other_are_found_through_names_passed_on() {
        let sources = [
            source(
                "lib.rs",
                "mod a; mod b; mod c; mod d; pub use a::One; pub use crate::a::Two;",
            ),
            source("a.rs", "use crate::b::Three; fn f(_: crate::d::Four) {}"),
            source("b.rs", "fn f() { super::c::g() }"),
            source(
                "c.rs",
                "use crate::Two; #[cfg(test)] mod tests { use crate::d::Four; }",
            ),
            source("d.rs", ""),
        ];
        assert_eq!(of(&sources), [["a.rs", "b.rs", "c.rs"]]);
    }

    #[test]
    fn a_chain_is_no_circle() {
        let sources = [
            source("lib.rs", "mod a; mod b; mod c;"),
            source("a.rs", "use crate::b::X;"),
            source("b.rs", "use crate::c::X;"),
            source("c.rs", ""),
        ];
        assert!(of(&sources).is_empty());
    }
}
