//! The network between hosts, from the command line and NCCL's variables.

use anyhow::{Result, bail};
use bench::NetworkOptions;
use bootstrap::rendezvous::launcher;

use crate::arguments::run::RunArguments;
use crate::environment::Environment;
use crate::exit;
use crate::output::Output;

/// Most sockets of a connection, as in NCCL.
const MOST_SOCKETS: u16 = 64;

/// As the command line and NCCL's variables say.
///
/// # Errors
/// A variable has a value that is out of range.
pub(super) fn of(
    arguments: &RunArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<NetworkOptions> {
    let given = &arguments.join;
    let nccl = |name: &str| environment.nccl_value(&arguments.variables, name);
    let by_sockets = nccl("NCCL_NET").is_some_and(|it| it.eq_ignore_ascii_case("socket"));
    let plugins = match &given.net_plugin {
        Some(given) => Some(given.clone()),
        None if by_sockets => None,
        None => Some(nccl("NCCL_NET_PLUGIN").unwrap_or_default()),
    };
    Ok(NetworkOptions {
        sockets: sockets(given.sockets, nccl, output)?,
        checksums: given.checksums,
        plugins,
        debug: nccl("NCCL_DEBUG").unwrap_or_default().to_uppercase(),
    })
}

/// The same, but a plug-in is used only if it is named.
pub(super) fn of_rehearsal(
    arguments: &RunArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<NetworkOptions> {
    let mut network = of(arguments, environment, output)?;
    network.plugins = network.plugins.filter(|names| !names.trim().is_empty());
    Ok(network)
}

/// Refuses options that say how hosts are joined if all ranks are on one host.
pub(super) fn refuse_on_one_host(arguments: &RunArguments) -> Result<()> {
    let given = &arguments.join;
    let options = [
        ("--net-plugin", given.net_plugin.is_some()),
        ("--checksums", given.checksums),
        ("--sockets", given.sockets != 1),
    ];
    match options.into_iter().find(|(_, given)| *given) {
        Some((option, _)) if arguments.hosts == 1 => bail!(
            "{option} is for data between hosts, and all ranks are on this one; expected --hosts N with --processes, or \
             ranks that are started with --rank or a launcher"
        ),
        _ => Ok(()),
    }
}

/// Sockets per connection between hosts, from the command line or NCCL's variables.
fn sockets(given: u16, nccl: impl Fn(&str) -> Option<String>, output: &mut Output) -> Result<u16> {
    let number = |name: &str| {
        let text = nccl(name).filter(|it| !it.trim().is_empty());
        text.map(|it| launcher::number(name, &it, 1..=MOST_SOCKETS))
            .transpose()
    };
    let threads = number("NCCL_SOCKET_NTHREADS")?;
    let each = number("NCCL_NSOCKS_PERTHREAD")?;
    let product = match (threads, each) {
        (None, None) => return Ok(given),
        (threads, each) => threads.unwrap_or(1) * each.unwrap_or(1),
    };
    if product > MOST_SOCKETS {
        output.warnings.push(format!(
            "NCCL_SOCKET_NTHREADS × NCCL_NSOCKS_PERTHREAD is {product}: {MOST_SOCKETS} sockets are used, the most that a \
             connection has, as in NCCL"
        ));
    }
    Ok(product.min(MOST_SOCKETS))
}

/// Prints a line of a net plug-in's log.
pub(super) fn print_log(line: &str) {
    exit::report(&format!("net plug-in: {line}\n"));
}
