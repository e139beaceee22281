//! The cores that the server and the load client run on. Left to `placement`: moving them there.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity};
use serde::Serialize;

/// The cores of a round's programs. Empty: any.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Cores {
    pub(crate) server: Vec<usize>,
    pub(crate) client: Vec<usize>,
}

impl Cores {
    /// A core for each worker and the next for the client; when there are too few for that, nobody
    /// is bound, so that the kernel shares them out.
    pub(crate) fn shared_out(available: &[usize], workers: usize) -> Self {
        if available.len() <= workers {
            return Self {
                server: Vec::new(),
                client: Vec::new(),
            };
        }
        Self {
            server: available[..workers].to_vec(),
            client: vec![available[workers]],
        }
    }
}

/// The cores that this process may use, in ascending order.
///
/// # Errors
/// The kernel doesn't tell.
pub(crate) fn available() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("cannot read which cores may be used")?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|core| set.is_set(*core))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_and_client_never_share_a_bound_core() {
        let cores = Cores::shared_out(&[0, 1], 1);
        assert_eq!((cores.server, cores.client), (vec![0], vec![1]));
        let cores = Cores::shared_out(&[2, 3, 5, 7], 2);
        assert_eq!((cores.server, cores.client), (vec![2, 3], vec![5]));
    }

    #[test]
    fn with_too_few_cores_nobody_is_bound() {
        let cores = Cores::shared_out(&[0, 1], 2);
        assert!(cores.server.is_empty() && cores.client.is_empty());
    }
}
