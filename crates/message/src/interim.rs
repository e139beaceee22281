//! Interim responses: how many of them a client takes before the response.

/// The most bytes of the fields of a request's interim responses, taken together.
const MAX_BYTES: usize = 1 << 20;

/// The bytes as which one with fewer counts: of the shortest a client takes 1,024.
const LEAST_BYTES: usize = 1 << 10;

/// Bytes that a field costs beside its name and value, as RFC 9113 section 6.5.2 counts.
const FIELD_OVERHEAD: usize = 32;

/// The interim responses to one request (RFC 9110 section 15.2), as far as they have come: a client takes 1,024 of them, and
/// fewer where they have more than 1 KiB of fields each. Servers send a few; some say every few seconds that they are at work.
/// A server that sends them without end would keep the client busy, and fill what holds them until somebody asks for them.
#[derive(Debug, Clone, Copy, Default)]
pub struct InterimResponses {
    bytes: usize,
}

/// A server has sent more interim responses to a request than a client takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many interim responses")]
pub struct TooManyInterimResponses;

impl InterimResponses {
    /// Counts another one, which has these fields.
    ///
    /// # Errors
    /// [`TooManyInterimResponses`]: the server is not waited for any more.
    pub fn count<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        fields: impl IntoIterator<Item = (N, V)>,
    ) -> Result<(), TooManyInterimResponses> {
        let sizes = fields
            .into_iter()
            .map(|(name, value)| name.as_ref().len() + value.as_ref().len() + FIELD_OVERHEAD);
        let bytes = sizes.sum::<usize>().max(LEAST_BYTES);
        self.bytes = self.bytes.saturating_add(bytes);
        match self.bytes > MAX_BYTES {
            true => Err(TooManyInterimResponses),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(value: &str) -> usize {
        let mut responses = InterimResponses::default();
        let count = || responses.count([("link", value)]).is_ok();
        std::iter::repeat_with(count).take_while(|it| *it).count()
    }

    #[test]
    fn short_ones_are_bounded_by_their_number_and_long_ones_by_their_bytes() {
        assert_eq!(taken(""), 1_024);
        assert_eq!(taken(&"a".repeat(LEAST_BYTES - 36)), 1_024);
        assert_eq!(taken(&"a".repeat(LEAST_BYTES - 35)), 1_023);
        assert_eq!(taken(&"a".repeat(MAX_BYTES - 36)), 1);
        assert_eq!(taken(&"a".repeat(MAX_BYTES)), 0);
    }
}
