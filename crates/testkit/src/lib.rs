//! Tools that tests of several crates share. Nothing that ships depends on it.
//!
//! [`uml`] runs a program under a kernel of its own; [`free_port`] gives a server a port, and a [`SilentAddress`]
//! answers nobody. Left to others: what is run there, and what it should say.
//!
//! ```no_run
//! use altway_testkit::uml;
//! use std::process::ExitCode;
//! use std::time::Duration;
//!
//! fn main() -> ExitCode {
//!     if uml::is_init() {
//!         uml::init(); // this program as the first process of the other kernel
//!     }
//!     let kernel = uml::Kernel::find().expect("user-mode-linux is installed");
//!     let ran = kernel.run(&["uname", "-r"], &[], Duration::from_secs(60)).expect("it boots");
//!     println!("{}", ran.output);
//!     ExitCode::SUCCESS
//! }
//! ```

mod ports;
pub mod uml;

pub use ports::{SilentAddress, free_port};
