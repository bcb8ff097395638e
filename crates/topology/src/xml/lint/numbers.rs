//! Attributes that should be numbers.

use super::super::{Element, Tag, c_float, c_int, c_unsigned_hexadecimal};
use super::{Lint, excerpt};

impl Lint<'_> {
    /// Warns about an integer that NCCL reads differently than written.
    pub(super) fn integer(&mut self, element: &Element, name: &str, text: &str) {
        let value = c_int(text);
        if plain_integer(text) == Some(value) {
            if value < least(name) {
                self.warn("negative", &format!("{name} {text}"), element, Some(name), || {
                    format!("{value} is not a value that this can have: NCCL calculates with it as it stands")
                });
            }
        } else if name == "link_width" && text.is_empty() {
            self.warn("integer", "link_width", element, Some(name), || {
                "an empty link width counts as 16 lanes".to_owned()
            });
        } else {
            self.warn(
                "integer",
                &format!("{name} {text}"),
                element,
                Some(name),
                || {
                    format!(
                        "{} is not a plain integer: NCCL reads it as {value}",
                        excerpt(text)
                    )
                },
            );
        }
    }

    /// Warns about a hexadecimal number that NCCL reads differently than written.
    pub(super) fn hexadecimal(&mut self, element: &Element, name: &str, text: &str) {
        // Recordings have empty ids if sysfs could not be read. NCCL needs only Broadcom's.
        if is_hexadecimal(text) || (text.is_empty() && element.tag == Tag::Pci) {
            return;
        }
        let consequence = match name {
            "guid" => ", and ports whose guids read alike count as ports of one device",
            "host_hash" => ", and CPUs whose host hashes read alike count as one host",
            _ => "",
        };
        self.warn("hexadecimal", &format!("{name} {text}"), element, Some(name), || {
            let value = c_unsigned_hexadecimal(text);
            format!("{} is not a 64-bit hexadecimal number: NCCL reads it as {value:#x}{consequence}", excerpt(text))
        });
    }

    pub(super) fn float(&mut self, element: &Element, name: &str, text: &str) {
        let value = c_float(text);
        if text.parse::<f32>() != Ok(value) {
            self.warn("float", text, element, Some(name), || {
                format!(
                    "{} is not a plain number: it is read as {value}",
                    excerpt(text)
                )
            });
        } else if !value.is_finite() || value < 0.0 {
            self.warn("float", text, element, Some(name), || {
                format!("{} is not a time that a message can take", excerpt(text))
            });
        }
    }
}

/// A plain integer: decimal digits, or hexadecimal ones after `0x`.
fn plain_integer(text: &str) -> Option<i32> {
    match text.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_hexdigit()) => {
            i32::from_str_radix(digits, 16).ok()
        }
        Some(_) => None,
        None => text.parse().ok(),
    }
}

fn is_hexadecimal(text: &str) -> bool {
    let digits = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .unwrap_or(text);
    !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_hexdigit())
        && digits.trim_start_matches('0').len() <= 16
}

/// The least sensible value of an integer attribute. Amounts and speeds are checked elsewhere.
fn least(name: &str) -> i32 {
    match name {
        "numaid" | "mlopart" | "rail" | "plane" => -1,
        "count" | "bw" | "link_width" | "speed" => i32::MIN,
        _ => 0,
    }
}
