//! The treatment of traffic by switch ports.

use probe::checks::SwitchPort;
use probe::machine::config_space::AccessControl;

/// The treatment of traffic by the ports of the switch between two devices; nothing without ports.
pub(crate) fn access_control(ports: &[SwitchPort]) -> Option<String> {
    let among = |is_meant: fn(Option<AccessControl>) -> bool| {
        let meant = ports.iter().filter(|port| is_meant(port.access_control));
        meant.map(|port| port.bus_id.as_str()).collect::<Vec<_>>()
    };
    let redirecting = among(|control| control.is_some_and(AccessControl::redirects));
    let unknown = among(|control| control.is_none());
    match (redirecting.as_slice(), unknown.as_slice()) {
        _ if ports.is_empty() => None,
        ([], []) => Some("ACS: the switch ports between them redirect nothing.".to_owned()),
        ([], unknown) => Some(format!(
            "ACS: not known for {}: such a port has none, or the recording was made without root.",
            unknown.join(" and ")
        )),
        (redirecting, _) => Some(format!(
            "ACS: {} {} PCIe traffic between them through the CPU. NCCL does not see this: \
             transfers are slower than the path says, or hang. `topo doctor` says how to switch ACS \
             off (T006).",
            redirecting.join(" and "),
            match redirecting.len() {
                1 => "redirects",
                _ => "redirect",
            }
        )),
    }
}
