//! Bus ids as folder names.

use topology::BusId;

/// Whether a name is a bus id (`0000:1b:00.0`). Domains of volume managers have five digits.
pub fn is_bus_id(name: &str) -> bool {
    BusId::is_well_formed(name) && name.is_ascii()
}

/// Whether NCCL takes a folder name as a bus id: twelve characters, with a domain of four digits.
pub fn is_plain_bus_id(name: &str) -> bool {
    name.len() == 12 && is_bus_id(name)
}

/// The bus id of the device's first function.
pub fn first_function(bus_id: &str) -> String {
    match bus_id.rsplit_once('.') {
        Some((device, _)) => format!("{device}.0"),
        None => bus_id.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_folders() {
        assert!(is_plain_bus_id("0000:1b:00.0"));
        assert!(is_bus_id("10000:01:00.0") && !is_plain_bus_id("10000:01:00.0"));
        assert!(!is_bus_id("pci0000:1b") && !is_bus_id("virtio0"));
        assert_eq!(first_function("0000:1b:00.3"), "0000:1b:00.0");
    }
}
