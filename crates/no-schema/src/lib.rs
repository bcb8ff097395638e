//! The derive macros `JsonSchema`, `Args` and `ValueEnum` of builds that need no schemas, or no
//! command line: they derive nothing.
//!
//! The schemas of all kinds of JSON are in `docs/schemas`, and `topo gen schema` prints those. Only
//! the test that compares them to the types needs schemars, which takes a tenth of the time of a
//! build. So crates with such types have a feature `schema`, and take `JsonSchema` from schemars
//! with it, from here without it. Questions have the arguments of the command line in the same way:
//! `answers` takes `Args` and `ValueEnum` from clap with its feature `arguments`.

use proc_macro::TokenStream;

/// Derives nothing. Takes the attributes of schemars.
#[proc_macro_derive(JsonSchema, attributes(schemars))]
pub fn json_schema(_: TokenStream) -> TokenStream {
    TokenStream::new()
}

/// Derives nothing. Takes the attributes of clap.
#[proc_macro_derive(Args, attributes(arg, command))]
pub fn args(_: TokenStream) -> TokenStream {
    TokenStream::new()
}

/// Derives nothing. Takes the attributes of clap.
#[proc_macro_derive(ValueEnum, attributes(value))]
pub fn value_enum(_: TokenStream) -> TokenStream {
    TokenStream::new()
}
