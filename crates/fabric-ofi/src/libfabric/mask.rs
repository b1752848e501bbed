//! Mask: capabilities of a provider that are left unused, because it does not do what it claims, or to test over it what other
//! providers require.

/// The variable that lists those of a job, separated by commas.
pub const VARIABLE: &str = "WEFT_LIBFABRIC_WITHOUT";

/// Capabilities that are ignored although the provider has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mask {
    /// Remote access to memory (ignored: like a provider without `FI_RMA`).
    pub remote_access: bool,
    /// Own transfers with memory that is not registered (a provider with `FI_MR_LOCAL`).
    pub unregistered: bool,
    /// Keys and addresses of memory that are not the provider's (one with `FI_MR_PROV_KEY` and `FI_MR_VIRT_ADDR`).
    pub chosen_keys: bool,
    /// Keys of memory of more than 32 bits.
    pub long_keys: bool,
    /// Messages that arrive after writes before them (a provider without `FI_ORDER_SAW`).
    pub ordered_writes: bool,
}

impl Mask {
    /// The mask that the environment gives.
    ///
    /// # Errors
    /// If it names anything else, as a sentence.
    pub fn of_environment() -> Result<Self, String> {
        Self::parse(&std::env::var(VARIABLE).unwrap_or_default())
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut mask = Self::default();
        let names = text.split(',').map(str::trim);
        for name in names.filter(|name| !name.is_empty()) {
            match name {
                "remote-access" => mask.remote_access = true,
                "unregistered" => mask.unregistered = true,
                "chosen-keys" => mask.chosen_keys = true,
                "long-keys" => mask.long_keys = true,
                "ordered-writes" => mask.ordered_writes = true,
                other => {
                    return Err(format!(
                        "{VARIABLE} names {other}; remote-access, unregistered, chosen-keys, long-keys and ordered-writes can be \
                         left unused"
                    ));
                }
            }
        }
        Ok(mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_or_refused() {
        assert_eq!(Mask::parse(""), Ok(Mask::default()));
        let mask = Mask {
            remote_access: true,
            long_keys: true,
            ..Mask::default()
        };
        assert_eq!(Mask::parse("remote-access, long-keys"), Ok(mask));
        let all = "remote-access,unregistered,chosen-keys,long-keys,ordered-writes";
        let all = Mask::parse(all).expect("names");
        assert!(all.unregistered && all.chosen_keys && all.ordered_writes);
        let error = Mask::parse("long-keys,rma").expect_err("no name");
        assert!(
            error.contains("rma") && error.contains("remote-access"),
            "{error}"
        );
    }
}
