//! The choice of network interfaces, as in NCCL.
//!
//! `NCCL_SOCKET_IFNAME` is a list of prefixes; after `^` it lists interfaces to exclude, after `=`
//! whole names. `NCCL_SOCKET_FAMILY` is `AF_INET` or `AF_INET6`. Without `NCCL_SOCKET_IFNAME`,
//! names that begin with `ib` are preferred, then others, then bridges of Docker and libvirt, then
//! the loopback.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

/// Most interfaces that are used, as in NCCL.
pub const MOST_INTERFACES: usize = 16;

/// An interface with an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name, such as `eth0`.
    pub name: String,
    /// Its first address of the chosen family, with port 0.
    pub address: SocketAddr,
}

/// The user's choice of interfaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// `NCCL_SOCKET_IFNAME`.
    pub names: Option<String>,
    /// `NCCL_SOCKET_FAMILY`.
    pub family: Option<String>,
}

/// The interfaces of this host that are up, in the kernel's order, with every address.
///
/// # Errors
/// The kernel does not list them.
pub fn list() -> std::io::Result<Vec<Interface>> {
    let mut found = Vec::new();
    for interface in getifaddrs()? {
        if !interface.flags.contains(InterfaceFlags::IFF_UP) {
            continue;
        }
        let Some(address) = interface.address else {
            continue;
        };
        let address = if let Some(v4) = address.as_sockaddr_in() {
            SocketAddr::new(IpAddr::V4(v4.ip()), 0)
        } else if let Some(v6) = address.as_sockaddr_in6() {
            SocketAddr::V6(SocketAddrV6::new(v6.ip(), 0, 0, v6.scope_id()))
        } else {
            continue;
        };
        found.push(Interface {
            name: interface.interface_name,
            address,
        });
    }
    Ok(found)
}

/// The interfaces that the user wants, best first, each once.
///
/// # Errors
/// The family is unknown, or no interface matches; the text lists the interfaces of this host.
pub fn choose(all: &[Interface], wanted: &Wanted) -> Result<Vec<Interface>, String> {
    let family = match wanted.family.as_deref() {
        None | Some("") => None,
        Some("AF_INET") => Some(false),
        Some("AF_INET6") => Some(true),
        Some(other) => {
            return Err(format!(
                "NCCL_SOCKET_FAMILY={other}: expected AF_INET or AF_INET6"
            ));
        }
    };
    let of_family = |it: &&Interface| family.is_none_or(|v6| v6 == it.address.is_ipv6());
    // A link-local address is used last: it is valid only together with an interface.
    let mut all: Vec<&Interface> = all.iter().filter(of_family).collect();
    all.sort_by_key(|it| (it.address.is_ipv6(), is_link_local(it.address.ip())));
    let mut seen: Vec<&str> = Vec::new();
    all.retain(|it| {
        let new = !seen.contains(&it.name.as_str());
        if new {
            seen.push(&it.name);
        }
        new
    });
    let list = wanted.names.as_deref().unwrap_or_default();
    let chosen: Vec<&Interface> = if list.is_empty() {
        let rank = |it: &&Interface| match it.name.as_str() {
            name if name.starts_with("ib") => 0,
            name if name.starts_with("docker") || name.starts_with("virbr") => 2,
            _ if it.address.ip().is_loopback() => 3,
            _ => 1,
        };
        let best = all.iter().map(rank).min();
        all.into_iter()
            .filter(|it| Some(rank(it)) == best)
            .collect()
    } else {
        let (exclude, rest) = list
            .strip_prefix('^')
            .map_or((false, list), |it| (true, it));
        let (exact, rest) = rest
            .strip_prefix('=')
            .map_or((false, rest), |it| (true, it));
        let matches = |it: &&Interface| {
            let mut names = rest.split(',').filter(|name| !name.is_empty());
            names.any(|name| {
                // A name may be followed by a port, which has no effect.
                let name = name.split_once(':').map_or(name, |(name, _)| name);
                if exact {
                    it.name == name
                } else {
                    it.name.starts_with(name)
                }
            })
        };
        let wanted =
            |it: &&Interface| matches(it) != exclude && !(exclude && it.address.ip().is_loopback());
        all.into_iter().filter(wanted).collect()
    };
    if chosen.is_empty() {
        let names = if seen.is_empty() {
            "none".to_owned()
        } else {
            seen.join(", ")
        };
        let asked = if list.is_empty() {
            "no network interface is up".to_owned()
        } else {
            format!("NCCL_SOCKET_IFNAME={list} fits no network interface")
        };
        return Err(format!("{asked}; there are: {names}"));
    }
    Ok(chosen.into_iter().take(MOST_INTERFACES).cloned().collect())
}

const fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => is_v6_link_local(address),
    }
}

const fn is_v6_link_local(address: Ipv6Addr) -> bool {
    (address.segments()[0] & 0xffc0) == 0xfe80
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Vec<Interface> {
        [
            ("lo", "127.0.0.1:0"),
            ("eth0", "10.0.0.1:0"),
            ("eth1", "10.0.1.1:0"),
            ("ib0", "10.1.0.1:0"),
            ("docker0", "172.17.0.1:0"),
            ("lo", "[::1]:0"),
            ("eth0", "[2001:db8::1]:0"),
            ("eth0", "[fe80::1]:0"),
        ]
        .map(|(name, address)| Interface {
            name: name.to_owned(),
            address: address.parse().unwrap(),
        })
        .to_vec()
    }

    fn names(names: &str, family: &str) -> Vec<String> {
        let wanted = Wanted {
            names: Some(names.to_owned()),
            family: Some(family.to_owned()),
        };
        let chosen = choose(&machine(), &wanted).unwrap();
        chosen.into_iter().map(|it| it.name).collect()
    }

    #[test]
    fn names_are_prefixes_exclusions_or_whole() {
        assert_eq!(names("", ""), ["ib0"]);
        assert_eq!(names("eth", ""), ["eth0", "eth1"]);
        assert_eq!(names("eth1,ib", ""), ["eth1", "ib0"]);
        assert_eq!(names("^ib,docker", ""), ["eth0", "eth1"]);
        assert_eq!(names("=eth0", ""), ["eth0"]);
        assert_eq!(names("^=eth0", ""), ["eth1", "ib0", "docker0"]);
        assert_eq!(names("lo", ""), ["lo"]);
        assert_eq!(names("", "AF_INET6"), ["eth0"]);
    }

    #[test]
    fn a_name_without_a_match_lists_the_interfaces() {
        let wanted = Wanted {
            names: Some("wlan".to_owned()),
            family: None,
        };
        let error = choose(&machine(), &wanted).unwrap_err();
        assert!(
            error.contains("wlan") && error.contains("eth0, eth1, ib0"),
            "{error}"
        );
        let wanted = Wanted {
            names: None,
            family: Some("AF_IPX".to_owned()),
        };
        assert!(
            choose(&machine(), &wanted)
                .unwrap_err()
                .contains("AF_INET6")
        );
    }

    #[test]
    fn this_host_has_an_interface() {
        let all = list().unwrap();
        assert!(
            all.iter().any(|it| it.address.ip().is_loopback()),
            "{all:?}"
        );
    }
}
