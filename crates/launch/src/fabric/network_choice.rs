//! Network choice: the values of `mpiexec --fabric` and `WEFT_FABRIC`.

/// Possible values, for messages.
pub const POSSIBLE: &str = "auto, tcp, ofi and ofi:PROVIDER";

/// How ranks that do not share memory reach each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NetworkChoice {
    /// By libfabric where all have hardware for it, by TCP elsewhere.
    Auto,
    /// By TCP, also within a host.
    Tcp,
    /// By libfabric, with the provider of this name or the best.
    Ofi(Option<String>),
}

impl NetworkChoice {
    /// Reads it; `None` if it says nothing that is known.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::Auto),
            "tcp" => Some(Self::Tcp),
            "ofi" => Some(Self::Ofi(None)),
            _ => {
                let provider = text.strip_prefix("ofi:")?;
                let allowed =
                    |letter: char| letter.is_ascii_alphanumeric() || "_;-".contains(letter);
                let is_name = !provider.is_empty() && provider.chars().all(allowed);
                is_name.then(|| Self::Ofi(Some(provider.to_owned())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_are_named_behind_a_colon() {
        let ofi = |name: &str| Some(NetworkChoice::Ofi(Some(name.to_owned())));
        assert_eq!(NetworkChoice::parse("ofi"), Some(NetworkChoice::Ofi(None)));
        assert_eq!(NetworkChoice::parse("ofi:tcp"), ofi("tcp"));
        assert_eq!(NetworkChoice::parse("ofi:tcp;ofi_rxm"), ofi("tcp;ofi_rxm"));
        for wrong in ["", "of", "ofi:", "ofi:a b", "ofi:a/b", "verbs"] {
            assert_eq!(NetworkChoice::parse(wrong), None, "{wrong}");
        }
    }
}
