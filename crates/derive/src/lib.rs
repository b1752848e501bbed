//! Derive macro `Element` of `weft::mpi`: a struct or an enum as an element of messages.
//!
//! The datatype of a struct lists the fields, in the order of their declaration, at the offsets that the compiler
//! gave them: padding is never read. The datatype of an enum without data is the integer of its `repr`. In both cases
//! bytes from another rank are checked before they become a value, unless all bit patterns are valid.
//!
//! The generated impl is `unsafe`, as the trait is; it keeps the trait's promises because the
//! offsets are those of the compiler, and each field is itself an `Element`.

#![forbid(unsafe_code)]

mod enumeration;
mod structure;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{ToTokens, quote};
use syn::{Data, DeriveInput, Error, Generics, Result, parse_macro_input, parse_quote};

/// Implements `weft::mpi::Element`, and `Buffer` and `BufferMut` for a single value.
///
/// * Of a struct with at least one field, each of which is an `Element`. It must be `Copy`.
/// * Of an enum without data, with `#[repr(u8)]` or another integer.
///
/// Any values of the fields together must be a value of the struct: others may send them. If a struct promises
/// more about its fields than their types do, send the fields, and make the struct of them.
///
/// Between different programs, or with programs in C, say `#[repr(C)]`. Without padding, and with the fields in
/// the order in which they lie in memory, a message is one copy.
#[proc_macro_derive(Element)]
pub fn element(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    derive(&input)
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

fn derive(input: &DeriveInput) -> Result<Tokens> {
    let element = match &input.data {
        Data::Struct(data) => structure::element(input, data)?,
        Data::Enum(data) => enumeration::element(input, data)?,
        Data::Union(data) => {
            return Err(Error::new(
                data.union_token.span,
                "a union does not say which of its fields is there; send a struct",
            ));
        }
    };
    let name = &input.ident;
    let generics = with_elements(&input.generics);
    let (parameters, arguments, bounds) = generics.split_for_impl();
    Ok(quote! {
        #element

        #[automatically_derived]
        impl #parameters ::weft::mpi::Buffer for #name #arguments #bounds {
            type Element = Self;
            type Owned = Self;

            fn elements(&self) -> &[Self] {
                ::core::slice::from_ref(self)
            }

            fn owned(elements: ::std::vec::Vec<Self>) -> Self {
                elements[0]
            }
        }

        #[automatically_derived]
        impl #parameters ::weft::mpi::BufferMut for #name #arguments #bounds {
            fn elements_mut(&mut self) -> &mut [Self] {
                ::core::slice::from_mut(self)
            }
        }
    })
}

/// The generics, with each type parameter an element.
fn with_elements(generics: &Generics) -> Generics {
    let mut generics = generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(::weft::mpi::Element));
    }
    generics
}

/// The `unsafe impl` around its three items.
fn implementation(
    input: &DeriveInput,
    checked: &impl ToTokens,
    datatype: &impl ToTokens,
    is_valid: &impl ToTokens,
) -> Tokens {
    let name = &input.ident;
    let generics = with_elements(&input.generics);
    let (parameters, arguments, bounds) = generics.split_for_impl();
    quote! {
        // SAFETY: places and sizes are those of the compiler, and each part is an element itself.
        #[automatically_derived]
        unsafe impl #parameters ::weft::mpi::Element for #name #arguments #bounds {
            const CHECKED: bool = #checked;

            fn datatype() -> &'static ::weft::mpi::derived::Shared {
                #datatype
            }

            unsafe fn is_valid(at: *const Self) -> bool {
                #is_valid
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        let input = syn::parse_str(text).expect("Rust");
        derive(&input)
            .expect_err("it cannot be an element")
            .to_string()
    }

    #[test]
    fn what_cannot_be_an_element_is_refused_with_a_remedy() {
        assert!(refusal("union A { a: u8, b: i8 }").contains("send a struct"));
        assert!(refusal("struct A;").contains("has no fields"));
        assert!(refusal("struct A {}").contains("has no fields"));
        assert!(refusal("enum A { B, C }").contains("repr(u8)"));
        assert!(refusal("#[repr(u8)] enum A { B, C(u8) }").contains("has data"));
        assert!(refusal("#[repr(u8)] enum A {}").contains("no variant"));
    }

    #[test]
    fn fields_keep_the_order_of_their_declaration() {
        let input = syn::parse_str("struct A { one: u8, two: f64 }").expect("Rust");
        let text = derive(&input).expect("an element").to_string();
        let place = |name: &str| {
            text.find(&format!("offset_of ! (Self , {name})"))
                .unwrap_or_else(|| panic!("{name} in {text}"))
        };
        assert!(place("one") < place("two"));
    }
}
