//! Attacks: builds the server and the hostile clients of `crates/attack`, and has them at it.

use anyhow::Result;
use clap::Args;

use crate::shell;

#[derive(Args)]
pub(crate) struct Attack {
    /// Attacks to run [default: all].
    names: Vec<String>,
    /// Name the attacks, and run none.
    #[arg(long)]
    list: bool,
    /// Run the quick forms, which the tests run as well.
    #[arg(long)]
    quick: bool,
}

pub(crate) fn run(attack: &Attack) -> Result<()> {
    if !attack.list {
        shell::run("cargo build --release --locked -p altway")?;
    }
    let server = shell::target_folder().join("release/altway");
    let mut line = format!(
        "cargo run --quiet --release --locked -p altway-attack -- --server {}",
        server.display()
    );
    let flags = [(attack.list, " --list"), (attack.quick, " --quick")];
    line.extend(
        flags
            .into_iter()
            .filter_map(|(set, flag)| set.then_some(flag)),
    );
    for name in &attack.names {
        line.push_str(&format!(" {name}"));
    }
    // A signal that ends this chore is then the attackers', and their server ends with them.
    shell::run_in_place(&line)
}
