//! Module pages: the first words of a file, which name its subject. A page begins with the noun, not with a
//! question.

/// First words with which a page does not name its subject.
const QUESTIONS: [&str; 14] = [
    "What", "Who", "Whose", "Where", "Whether", "When", "How", "Why", "Which", "From", "As",
    "Those", "Things", "Making",
];

/// The first words of a page that begins with one of these.
pub fn not_a_noun(file: &syn::File) -> Option<String> {
    let first = file.attrs.iter().find_map(|attribute| {
        let syn::Meta::NameValue(pair) = &attribute.meta else {
            return None;
        };
        let syn::Expr::Lit(literal) = &pair.value else {
            return None;
        };
        match &literal.lit {
            syn::Lit::Str(text) if pair.path.is_ident("doc") => Some(text.value()),
            _ => None,
        }
    })?;
    let words: Vec<&str> = first.split_whitespace().take(4).collect();
    QUESTIONS.contains(words.first()?).then(|| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_no_nouns() {
        let page = |text| not_a_noun(&syn::parse_file(text).unwrap());
        assert_eq!(
            page("//! Where a thread waits: one word.\n"),
            Some("Where a thread waits:".to_owned())
        );
        assert_eq!(
            page("//! Parker: the word on which a thread waits.\n"),
            None
        );
        assert_eq!(page("/// Where\nstruct Parker;\n"), None);
    }
}
