//! Lists of NIC names, as in `NCCL_IB_HCA` and `NCCL_SOCKET_IFNAME`.

/// Names of NICs: `^` before the list excludes them, `=` before it makes them whole names instead
/// of beginnings, and a name may end in `:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameList {
    excludes: bool,
    whole: bool,
    names: Vec<(String, Option<i32>)>,
}

impl NameList {
    /// Reads a list.
    pub fn new(text: &str) -> Self {
        let excludes = text.starts_with('^');
        let text = text.trim_start_matches('^');
        let whole = text.starts_with('=');
        let text = text.trim_start_matches('=');
        let name = |text: &str| match text.split_once(':') {
            Some((name, port)) => (name.to_owned(), port.parse().ok()),
            None => (text.to_owned(), None),
        };
        Self {
            excludes,
            whole,
            names: text
                .split(',')
                .filter(|text| !text.is_empty())
                .map(name)
                .collect(),
        }
    }

    /// Whether a job uses the NIC with this name and port number. An empty list takes all.
    pub fn takes(&self, name: &str, port: Option<i32>) -> bool {
        let same = |(wanted, number): &(String, Option<i32>)| {
            let named = if self.whole {
                name == wanted
            } else {
                name.starts_with(wanted.as_str())
            };
            named && (number.is_none() || port.is_none() || *number == port)
        };
        self.names.is_empty() || self.names.iter().any(same) != self.excludes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        for (text, name, taken) in [
            ("", "mlx5_0", true),
            ("mlx5", "mlx5_0", true),
            ("=mlx5_1", "mlx5_10", false),
            ("mlx5_1", "mlx5_10", true),
            ("^mlx5_1", "mlx5_10", false),
            ("^=mlx5_1", "mlx5_10", true),
            ("mlx5_0:2", "mlx5_0", false),
            ("mlx5_0:1,mlx5_3", "mlx5_3", true),
        ] {
            assert_eq!(
                NameList::new(text).takes(name, Some(1)),
                taken,
                "{text} {name}"
            );
        }
    }
}
