//! The protocol between Wireshark and its external capture programs (extcap(4)). Wireshark runs the
//! program once for each question, and once for a capture.

use std::io::Write;

use anyhow::{Context, Result, bail};

use super::capture;
use crate::capture::LinkType;
use crate::cli::args::Extcap;
use crate::cli::output;
use crate::source::live;

/// The network of this host.
const NETWORK: &str = "mcptap";
/// STDIO servers that run on this host.
#[cfg(all(feature = "attach", target_os = "linux"))]
const STDIO: &str = "mcptap-stdio";

pub(super) fn run(arguments: Extcap) -> Result<()> {
    let mut out = output::stdout();
    if arguments.extcap_interfaces {
        writeln!(out, "extcap {{version={}}}{{display=mcptap}}", env!("CARGO_PKG_VERSION"))?;
        writeln!(out, "interface {{value={NETWORK}}}{{display=MCP on this host}}")?;
        #[cfg(all(feature = "attach", target_os = "linux"))]
        writeln!(out, "interface {{value={STDIO}}}{{display=MCP over STDIO on this host}}")?;
        return Ok(out.flush()?);
    }
    let interface = arguments.extcap_interface.as_deref().context("Wireshark named no interface")?;
    let is_network = match interface {
        NETWORK => true,
        #[cfg(all(feature = "attach", target_os = "linux"))]
        STDIO => false,
        other => bail!("mcptap has no interface {other:?}"),
    };
    if arguments.extcap_dlts {
        let (link, name) = match is_network {
            true => (LinkType::ETHERNET, "Ethernet, or the link type of the interface"),
            false => (LinkType::UPPER_PDU, "Lines of STDIO"),
        };
        writeln!(out, "dlt {{number={}}}{{name=MCP}}{{display={name}}}", link.0)?;
    } else if arguments.extcap_config {
        match is_network {
            true => network_options(&mut out)?,
            false => writeln!(
                out,
                "arg {{number=0}}{{call=--process}}{{display=Server}}{{type=string}}\
                 {{tooltip=Process id of a server or its host, or a part of the command line; empty: all servers that are known as MCP}}"
            )?,
        }
    } else if arguments.capture {
        let fifo = arguments.fifo.as_deref().context("Wireshark named no --fifo")?;
        if is_network {
            capture::network(&arguments, fifo)?;
        } else {
            #[cfg(all(feature = "attach", target_os = "linux"))]
            capture::stdio(arguments.process.as_deref().filter(|process| !process.is_empty()), fifo)?;
        }
    }
    Ok(out.flush()?)
}

/// Writes the options of the first interface, as Wireshark shows them in a form.
fn network_options(out: &mut dyn Write) -> Result<()> {
    writeln!(
        out,
        "arg {{number=0}}{{call=--network}}{{display=Network interface}}{{type=selector}}{{default=any}}\
         {{tooltip=The interface that carries the traffic of MCP}}"
    )?;
    // Without the right to capture, there may be no list.
    let mut names: Vec<String> = live::interfaces().unwrap_or_default().into_iter().map(|it| it.name).collect();
    if !names.iter().any(|name| name == "any") {
        names.insert(0, "any".to_owned());
    }
    for name in names.iter().filter(|name| !name.contains(['{', '}', '\n'])) {
        let is_default = name == "any";
        writeln!(out, "value {{arg=0}}{{value={name}}}{{display={name}}}{{default={is_default}}}")?;
    }
    writeln!(
        out,
        "arg {{number=1}}{{call=--all}}{{display=All packets}}{{type=boolflag}}{{default=false}}\
         {{tooltip=Also packets of connections in which no MCP was found}}"
    )?;
    Ok(())
}
