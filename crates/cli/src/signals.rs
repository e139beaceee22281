//! Ctrl-C and SIGTERM: the first asks for an orderly end, the second ends at once. SIGHUP: read
//! again, or the terminal is gone. SIGUSR1: open the log anew.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The exit status of a process that a second signal ended: 128 + SIGINT, as shells have it.
const ENDED_AT_ONCE: i32 = 130;

/// A flag that the first signal sets; the second ends the process.
pub(crate) fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Registered first, so that it sees the flag as the signal before has left it.
        signal_hook::flag::register_conditional_shutdown(signal, ENDED_AT_ONCE, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// A flag that SIGTERM sets, for a process whose child shares its terminal: Ctrl-C then reaches the
/// child as well, and it is the child's to decide what that means.
pub(crate) fn terminate_flag() -> io::Result<Arc<AtomicBool>> {
    let terminate = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTERM, Arc::clone(&terminate))?;
    signal_hook::flag::register(SIGINT, Arc::new(AtomicBool::new(false)))?;
    Ok(terminate)
}

/// Calls `first` once, on a thread of its own, when a signal comes; the next ends the process.
pub(crate) fn on_stop(first: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let stop = stop_flag()?;
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        let _stop = stop;
        if signals.forever().next().is_some() {
            first();
        }
    });
    Ok(())
}

/// Calls `again` at each SIGHUP, on a thread of its own; a SIGHUP that comes because the terminal was
/// closed calls `gone` instead, lest a server that someone tried stay behind without a sight of it.
pub(crate) fn on_hangup(
    mut again: impl FnMut() + Send + 'static,
    gone: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let has_terminal = io::stderr().is_terminal();
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP])?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            if has_terminal && !io::stderr().is_terminal() {
                return gone();
            }
            again();
        }
    });
    Ok(())
}

/// Calls `reopen` at each SIGUSR1, on a thread of its own: it may wait for a disk.
pub(crate) fn on_reopen(mut reopen: impl FnMut() + Send + 'static) -> io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGUSR1])?;
    std::thread::spawn(move || signals.forever().for_each(|_| reopen()));
    Ok(())
}
