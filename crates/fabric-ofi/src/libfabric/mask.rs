//! Mask: capabilities that are left unused, so that what providers for hardware need runs over one that is here.

/// What a provider is taken not to have although it has it: as providers for hardware are, for tests over one that is here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mask {
    /// Own transfers with memory that is not registered (a provider with `FI_MR_LOCAL`).
    pub unregistered: bool,
    /// Messages that arrive after writes before them (a provider without `FI_ORDER_SAW`).
    pub ordered_writes: bool,
    /// Keys of memory of more than 32 bits.
    pub long_keys: bool,
    /// Remote access to memory (a provider without `FI_RMA`).
    pub remote_access: bool,
}
