//! The place of one connection: opens it, opens it anew when it ends, gives up when that fails
//! again and again.

use crate::run::Run;
use crate::send_permits::SendPermit;
use crate::{quic, tcp};
use altway_record::Protocol;
use std::time::{Duration, Instant};

/// Connection attempts in a row that may fail before a slot gives up.
const MAX_FAILURES: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Reason why a slot ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The end: there are no more requests to send.
    Done,
    /// No connection could be opened.
    GaveUp,
}

/// The request that opens a connection, and what that took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opening {
    /// The connection's ordinal.
    pub(crate) connection: u32,
    pub(crate) permit: SendPermit,
    /// Time at which the first socket call was made.
    pub(crate) begun: Instant,
}

/// Keeps one connection busy until the permits for connections that speak `over` run out.
pub(crate) async fn drive(run: &Run<'_>, over: Protocol) -> End {
    let mut failures = 0;
    while let Some(permit) = run.send_permits.next(over).await {
        let opening = Opening {
            connection: run.next_connection(),
            permit,
            begun: Instant::now(),
        };
        let served = match run.job.protocol_for(permit) {
            Protocol::H1 | Protocol::H2 => tcp::serve(run, opening).await,
            Protocol::H3 => quic::serve(run, opening).await,
        };
        match served {
            Ok(()) => failures = 0,
            Err(_) if run.send_permits.falls_back(permit) => {}
            Err(failure) => {
                run.on_unreachable(opening.connection, permit, failure);
                failures += 1;
                if failures == MAX_FAILURES {
                    return End::GaveUp;
                }
                tokio::time::sleep(pause(failures)).await;
            }
        }
    }
    End::Done
}

/// The wait after so many failures in a row, at least one.
fn pause(failures: u32) -> Duration {
    FIRST_PAUSE
        .saturating_mul(1 << (failures - 1))
        .min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_second() {
        assert_eq!(pause(1), Duration::from_millis(10));
        assert_eq!(pause(2), Duration::from_millis(20));
        assert_eq!(pause(7), Duration::from_millis(640));
        assert_eq!(pause(8), LONGEST_PAUSE);
        assert_eq!(pause(MAX_FAILURES), LONGEST_PAUSE);
    }
}
