//! `altway emulate attach`: a container as an end of the link that another one is.

use super::cannot_run;
use crate::Answer;
use crate::hint::usage_error;
use altway_emulate::{InterfaceAddress, attach};
use anyhow::Result;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// The time that the other end may take until it answers.
const PEER_TIMEOUT: Duration = Duration::from_secs(15);

/// The time that one attempt may take: on a bad path the first packets may be lost.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

const RETRY_DELAY: Duration = Duration::from_millis(50);

/// Make this host an end of a link that runs on another host (`--between`), and become COMMAND.
///
/// The interface gets an address in the same block as the other end's, and its offloads are switched off, so that
/// every packet is as on a wire. This is for a container, whose network ends with it: nothing is restored. Needs
/// CAP_NET_ADMIN.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  altway emulate attach --address 198.18.0.2/24 -- altway serve site
  altway emulate attach --address 198.18.0.1/24 --interface 198.19.1.0/24 -- \\
      altway load --protocol h3 --insecure https://198.18.0.2:8443/

Exit code: that of COMMAND; 2 when it could not be run.")]
pub(crate) struct Arguments {
    /// The address of this end, with the length of the block that both ends are in.
    #[arg(long, value_name = "ADDRESS/LENGTH")]
    address: InterfaceAddress,
    /// The interface that leads to the link: its name, or a block of addresses of which it has one.
    #[arg(long, value_name = "INTERFACE", default_value = "eth0")]
    interface: String,
    /// First wait, 15 seconds at most, until this address accepts TCP connections.
    #[arg(long, value_name = "ADDRESS:PORT")]
    wait_for: Option<SocketAddr>,
    /// The command to become, with its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Answer> {
    let interface = attach(&arguments.interface, arguments.address)?;
    tracing::info!(interface, address = %arguments.address, "attached");
    arguments.wait_for.map_or(Ok(()), wait_for)?;
    let (program, rest) = arguments
        .command
        .split_first()
        .expect("clap requires a command");
    let failed = Command::new(program).args(rest).exec();
    Err(cannot_run(program, failed))
}

fn wait_for(other: SocketAddr) -> Result<()> {
    let deadline = Instant::now() + PEER_TIMEOUT;
    while let Err(error) = TcpStream::connect_timeout(&other, ATTEMPT_TIMEOUT) {
        if Instant::now() >= deadline {
            return Err(usage_error(
                format!("nothing answers at {other}: {error}"),
                "see whether the server and the link to it run: `docker compose logs` tells in Docker",
            ));
        }
        std::thread::sleep(RETRY_DELAY);
    }
    Ok(())
}
