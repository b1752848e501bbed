//! `cargo xtask layers`: checks facts about the rooms. Rooms depend only on rooms above them in the table of
//! ARCHITECTURE.md, and use the dependencies that they declare; `unsafe` occurs only where CONTRIBUTING.md
//! allows it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use syn::visit::Visit;

use crate::rooms::{Rooms, root, sources};

/// Checks all rules and lists every violation.
pub fn check() -> Result<()> {
    let root = root()?;
    let rooms = Rooms::read(&root)?;
    let mut breaches = rooms.missing_places(&root);
    for entry in fs::read_dir(root.join("crates"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if rooms.floor(&name).is_none() {
            breaches.push(format!(
                "crates/{name} is not in the table of rooms of ARCHITECTURE.md"
            ));
        }
    }
    for (floor, room) in rooms.order.iter().enumerate() {
        let home = root.join("crates").join(room);
        let text = fs::read_to_string(home.join("Cargo.toml")).with_context(|| {
            format!("ARCHITECTURE.md lists the room {room}; crates/{room} has no manifest")
        })?;
        let declared = Declared::of(&text)?;
        for used in &declared.normal {
            match rooms.floor(used) {
                Some(below) if below < floor => {}
                Some(_) => breaches.push(format!(
                    "crates/{room} uses {used}, which stands after it in ARCHITECTURE.md"
                )),
                None => breaches.push(format!(
                    "crates/{room} uses weft-{used}, which is no room of ARCHITECTURE.md"
                )),
            }
        }
        breaches.extend(unused(&home, room, &declared)?);
        breaches.extend(misplaced_unsafe(&home, room, &rooms)?);
        for file in sources(&home.join("src"))? {
            if file.ends_with("mod.rs") {
                breaches.push(format!(
                    "{} stands beside its folder under the folder's name, as CONTRIBUTING.md has it",
                    file.strip_prefix(&root)?.display()
                ));
            }
        }
    }
    if breaches.is_empty() {
        println!(
            "layers: {} rooms, each uses only rooms above it in ARCHITECTURE.md and all that it declares; \
             unsafe and files stand only where CONTRIBUTING.md lets them",
            rooms.order.len()
        );
        return Ok(());
    }
    bail!(
        "{} breaches of the layers:\n  {}",
        breaches.len(),
        breaches.join("\n  ")
    )
}

/// The rooms that a manifest names.
#[derive(Debug, Default, PartialEq)]
struct Declared {
    normal: Vec<String>,
    /// For tests and examples only.
    development: Vec<String>,
}

impl Declared {
    fn of(manifest: &str) -> Result<Self> {
        let table: toml::Table = manifest.parse()?;
        let mut declared = Self::default();
        declared.take(&table);
        // Sections for one platform or one configuration contain the same two tables.
        let targets = table.get("target").and_then(toml::Value::as_table);
        for target in targets.into_iter().flat_map(toml::Table::values) {
            target
                .as_table()
                .into_iter()
                .for_each(|table| declared.take(table));
        }
        Ok(declared)
    }

    fn take(&mut self, table: &toml::Table) {
        let names = |section: &str| -> Vec<String> {
            table
                .get(section)
                .and_then(toml::Value::as_table)
                .into_iter()
                .flat_map(toml::Table::keys)
                .filter_map(|name| Some(name.strip_prefix("weft-")?.to_owned()))
                .collect()
        };
        self.normal.extend(names("dependencies"));
        self.development.extend(names("dev-dependencies"));
    }
}

/// Rooms that are declared as dependencies but never named in the code.
fn unused(home: &Path, room: &str, declared: &Declared) -> Result<Vec<String>> {
    let mut own = String::new();
    let mut around = String::new();
    for file in sources(&home.join("src"))? {
        own.push_str(&fs::read_to_string(file)?);
    }
    for folder in ["tests", "examples", "benches"] {
        if home.join(folder).exists() {
            for file in sources(&home.join(folder))? {
                around.push_str(&fs::read_to_string(file)?);
            }
        }
    }
    // A crate may also have a target elsewhere (`path = …` in its manifest), or consist of another crate's
    // code with other features.
    let manifest: toml::Table = fs::read_to_string(home.join("Cargo.toml"))?.parse()?;
    let library = manifest.get("lib").and_then(|table| table.get("path"));
    if let Some(path) = library.and_then(toml::Value::as_str).map(Path::new) {
        for file in sources(&home.join(path.parent().unwrap_or(path)))? {
            own.push_str(&fs::read_to_string(file)?);
        }
    }
    for section in ["test", "example", "bench"] {
        let targets = manifest.get(section).and_then(toml::Value::as_array);
        for target in targets.into_iter().flatten() {
            let path = target.get("path").and_then(toml::Value::as_str);
            let Some(folder) = path.and_then(|path| Path::new(path).parent()) else {
                continue;
            };
            for file in sources(&home.join(folder))? {
                around.push_str(&fs::read_to_string(file)?);
            }
        }
    }
    let name_of = |used: &String| format!("weft_{}", used.replace('-', "_"));
    let mut breaches = Vec::new();
    for used in &declared.normal {
        if !own.contains(&name_of(used)) {
            breaches.push(format!(
                "crates/{room} declares weft-{used} and its sources do not name it"
            ));
        }
    }
    for used in &declared.development {
        if !own.contains(&name_of(used)) && !around.contains(&name_of(used)) {
            breaches.push(format!(
                "crates/{room} declares weft-{used} for its tests, which do not name it"
            ));
        }
    }
    Ok(breaches)
}

fn misplaced_unsafe(home: &Path, room: &str, rooms: &Rooms) -> Result<Vec<String>> {
    let mut breaches = Vec::new();
    let src = home.join("src");
    for file in sources(&src)? {
        let inside = file
            .strip_prefix(&src)?
            .to_string_lossy()
            .replace('\\', "/");
        // Tests may use `unsafe` to make buffers of their own memory.
        let tests = inside.ends_with("tests.rs") || inside.contains("tests/");
        if tests || rooms.may_hold_unsafe(room, &inside) {
            continue;
        }
        for line in unsafe_lines(&fs::read_to_string(&file)?)
            .with_context(|| format!("parsing {}", file.display()))?
        {
            breaches.push(format!(
                "crates/{room}/src/{inside}:{line} holds unsafe code; the table of CONTRIBUTING.md says who may"
            ));
        }
    }
    Ok(breaches)
}

/// The lines at which unsafe code begins, without tests.
fn unsafe_lines(text: &str) -> Result<Vec<usize>> {
    #[derive(Default)]
    struct Finder {
        lines: Vec<usize>,
    }
    impl<'ast> Visit<'ast> for Finder {
        fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
            if !is_test(&module.attrs) {
                syn::visit::visit_item_mod(self, module);
            }
        }
        fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
            if !is_test(&function.attrs) {
                syn::visit::visit_item_fn(self, function);
            }
        }
        fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
            self.lines.push(block.unsafe_token.span.start().line);
            syn::visit::visit_expr_unsafe(self, block);
        }
        fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
            self.lines
                .extend(item.unsafety.map(|token| token.span.start().line));
            syn::visit::visit_item_impl(self, item);
        }
        fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
            self.lines
                .extend(item.unsafety.map(|token| token.span.start().line));
            syn::visit::visit_item_trait(self, item);
        }
        fn visit_signature(&mut self, signature: &'ast syn::Signature) {
            self.lines
                .extend(signature.unsafety.map(|token| token.span.start().line));
            syn::visit::visit_signature(self, signature);
        }
        fn visit_item_foreign_mod(&mut self, block: &'ast syn::ItemForeignMod) {
            self.lines.push(block.abi.extern_token.span.start().line);
        }
    }
    let mut finder = Finder::default();
    finder.visit_file(&syn::parse_file(text)?);
    Ok(finder.lines)
}

/// Whether an item is compiled for tests only.
pub fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let text = list.tokens.to_string();
            let has = |name| {
                text.split(|c: char| !c.is_alphanumeric())
                    .any(|word| word == name)
            };
            has("test") && !has("not")
        }
        syn::Meta::Path(path) => path.is_ident("test"),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_says_what_is_for_tests() {
        let manifest = "[dependencies]\nweft-sys.workspace = true\nlibc = \"1\"\n[dev-dependencies]\nweft-mpi.workspace = true\n[target.'cfg(not(loom))'.dependencies]\nweft-pool.workspace = true\n";
        let declared = Declared::of(manifest).unwrap();
        assert_eq!(declared.normal, ["sys", "pool"]);
        assert_eq!(declared.development, ["mpi"]);
    }

    #[test]
    fn unsafe_code_is_found_where_it_is_code() {
        let text = "// unsafe { }\nfn a() { let s = \"unsafe {\"; }\nfn b() { unsafe\n { x() } }\nunsafe impl Send for A {}\n#[cfg(test)]\nmod tests { fn c() { unsafe { } } }\n";
        assert_eq!(unsafe_lines(text).unwrap(), [3, 5]);
    }

    #[test]
    fn the_tree_keeps_its_layers() {
        check().unwrap();
    }
}
