//! Runs a command as root under a kernel of its own, user-mode Linux, and prints what it printed. The file system is the
//! machine's, read only; `/run` is empty and can be written to. What the lab measures where the kernel has netem:
//!
//! ```text
//! cargo run -p altway-testkit --example uml -- sh -c \
//!     'altway lab run /plan.toml --backend netem --runs /run >/dev/null 2>&1; cat /run/*/samples.csv' > samples.csv
//! altway lab report samples.csv
//! ```
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example talks"
)]

use altway_testkit::uml;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

/// Time that the command may take.
const KERNEL_TIMEOUT: Duration = Duration::from_secs(6 * 3600);

fn main() -> Result<ExitCode, Box<dyn Error>> {
    if uml::is_init() {
        uml::init();
    }
    let command: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    if words.is_empty() {
        eprintln!("say which command: uml COMMAND [ARGUMENT…]");
        return Ok(ExitCode::from(2));
    }
    let ran = uml::Kernel::find()?.run(&words, &[], KERNEL_TIMEOUT)?;
    print!("{}", ran.output);
    Ok(match ran.status {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}
