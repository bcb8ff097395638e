//! The causes by subject.

/// Makes a constant of each cause, and the list of them.
macro_rules! causes {
    ($subject:ident; $($name:ident { id: $id:literal, title: $title:literal, $($field:ident: $value:expr,)* })*) => {
        $(
            #[doc = $title]
            #[allow(clippy::needless_update, reason = "some causes have all fields")]
            pub static $name: $crate::causes::Cause = $crate::causes::Cause {
                id: $id,
                subject: $crate::causes::Subject::$subject,
                title: $title,
                $($field: $value,)*
                ..$crate::causes::Cause::USUAL
            };
        )*
        /// The causes of this subject, the narrow ones first.
        pub(super) static ALL: &[&$crate::causes::Cause] = &[$(&$name),*];
    };
}

pub mod consequence;
pub mod gpu;
pub mod hang;
pub mod harmless;
pub mod memory;
pub mod network;
pub mod nvlink;
pub mod pcie;
pub mod settings;
pub mod speed;
pub mod start;

use crate::causes::Cause;

/// The tables in the order of [`Subject::ALL`](crate::causes::Subject::ALL).
pub(crate) static TABLES: [&[&Cause]; 11] = [
    hang::ALL,
    network::ALL,
    start::ALL,
    nvlink::ALL,
    gpu::ALL,
    pcie::ALL,
    settings::ALL,
    memory::ALL,
    speed::ALL,
    harmless::ALL,
    consequence::ALL,
];
