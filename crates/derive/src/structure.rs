//! Structs: each field at its place.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DataStruct, DeriveInput, Error, Member, Result, Type};

use crate::implementation;

pub(crate) fn element(input: &DeriveInput, data: &DataStruct) -> Result<TokenStream> {
    if data.fields.is_empty() {
        return Err(Error::new_spanned(
            &input.ident,
            "a struct that has no fields has nothing to send; send a barrier, or a message of no elements",
        ));
    }
    let members: Vec<Member> = data.fields.members().collect();
    let types: Vec<&Type> = data.fields.iter().map(|field| &field.ty).collect();
    let checked = quote!(#(<#types as ::weft::mpi::Element>::CHECKED)||*);
    let build = quote! {
        ::weft::mpi::derived::structure(
            ::core::mem::size_of::<Self>(),
            &[#((
                ::core::mem::offset_of!(Self, #members),
                <#types as ::weft::mpi::Element>::datatype(),
            )),*],
        )
    };
    // A static inside of a generic function is one for all its types.
    let datatype = if input.generics.type_params().next().is_none()
        && input.generics.const_params().next().is_none()
    {
        quote! {
            static DATATYPE: ::std::sync::OnceLock<::weft::mpi::derived::Shared> =
                ::std::sync::OnceLock::new();
            DATATYPE.get_or_init(|| #build)
        }
    } else {
        quote!(::weft::mpi::derived::cached::<Self>(|| #build))
    };
    let is_valid = quote! {
        // SAFETY: a field of what `at` points to, by the promise of the caller.
        unsafe { #(<#types as ::weft::mpi::Element>::is_valid(&raw const (*at).#members))&&* }
    };
    Ok(implementation(input, &checked, &datatype, &is_valid))
}
