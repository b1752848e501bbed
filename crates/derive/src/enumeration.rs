//! Enums without data: the integer that `repr` names.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DataEnum, DeriveInput, Error, Fields, Ident, Result};

use crate::implementation;

const INTEGERS: [&str; 10] = [
    "u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize",
];

pub(crate) fn element(input: &DeriveInput, data: &DataEnum) -> Result<TokenStream> {
    if data.variants.is_empty() {
        return Err(Error::new_spanned(
            &input.ident,
            "an enum with no variant has no value to send",
        ));
    }
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new_spanned(
                variant,
                "a variant that has data cannot be sent: its other bytes would be anything; send a struct of a number and the data",
            ));
        }
    }
    let integer = integer(input)?;
    let names: Vec<&Ident> = data.variants.iter().map(|variant| &variant.ident).collect();
    let datatype = quote!(<#integer as ::weft::mpi::Element>::datatype());
    let is_valid = quote! {
        // SAFETY: the enum is an integer in memory, which the caller promises can be read; it need not be aligned.
        let number = unsafe { at.cast::<#integer>().read_unaligned() };
        #(number == Self::#names as #integer)||*
    };
    Ok(implementation(input, &quote!(true), &datatype, &is_valid))
}

fn integer(input: &DeriveInput) -> Result<Ident> {
    let mut found = None;
    for attribute in &input.attrs {
        if !attribute.path().is_ident("repr") {
            continue;
        }
        attribute.parse_nested_meta(|meta| {
            if let Some(name) = meta.path.get_ident()
                && INTEGERS.iter().any(|integer| name == integer)
            {
                found = Some(name.clone());
            }
            Ok(())
        })?;
    }
    found.ok_or_else(|| {
        Error::new_spanned(
            &input.ident,
            "which integer the enum is must be said: write #[repr(u8)], or another integer, above it",
        )
    })
}
