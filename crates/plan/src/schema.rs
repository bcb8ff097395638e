//! The schemas of values of the crate `topology` in plan files.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use topology::PathType;

/// The names of [`PathType`].
pub(crate) struct PathTypeName;

impl JsonSchema for PathTypeName {
    fn schema_name() -> Cow<'static, str> {
        "PathType".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "How a path crosses the machine, best first.",
            "type": "string",
            "enum": PathType::ALL.map(PathType::name),
        })
    }
}

macro_rules! names {
    ($(#[doc = $text:literal] $name:ident = $schema:literal [$($value:literal),*];)*) => {$(
        pub(crate) struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                $schema.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "description": $text.trim(), "type": "string", "enum": [$($value),*] })
            }
        }
    )*};
}

names! {
    /// Architecture of a CPU.
    CpuArchName = "CpuArch" ["x86", "power", "arm", "unknown"];
    /// Vendor of a CPU.
    CpuVendorName = "CpuVendor" ["intel", "amd", "zhaoxin", "unknown"];
    /// Generation of a CPU.
    CpuModelName = "CpuModel" ["intel-broadwell", "intel-skylake", "intel-sapphire-rapids", "intel-emerald-rapids", "zhaoxin-yongfeng", "other"];
}
