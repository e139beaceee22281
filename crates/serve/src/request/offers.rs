//! Offers of HTTP/3: those that responses make, and one that is told after the page, to a client that would move in the
//! middle of it, or whose page has shown that HTTP/3 is faster.

use super::check::RequestHead;
use super::fields::Offered;
use super::known_host::MAX_AUTHORITY;
use super::requests::{Now, Requests, selection};
use crate::selection::HostIndex;
use crate::selection::counters::Counters;
use altway_select::{AltSvc, Decision};

impl<I> Requests<I> {
    /// The decision for a response of that size, if it is known; `None` where there is nothing to offer.
    pub(crate) fn decision(&mut self, size: Option<u64>, now: Now) -> Option<Decision> {
        let selection = selection(&self.responder, self.listener_policy)?;
        let load = self.responder.load.share(now.instant);
        self.observer
            .decide(selection, size, load, now.instant, now.unix)
    }

    /// The host of a connection's first request; that of others where it is not wanted any more.
    pub(super) fn first_host(&mut self, head: &impl RequestHead) -> HostIndex {
        let is_wanted = self.listener_policy.http3.is_some() && self.observer.client().is_none();
        match is_wanted {
            true => self.host_facts(head).named.index,
            false => HostIndex::OTHERS,
        }
    }

    /// The offer that a decision makes to a client of this listener.
    pub(crate) fn offered(&self, decision: Option<&Decision>) -> Option<Offered> {
        let (decision, port) = decision.zip(self.listener_policy.http3)?;
        let alt_svc = decision.alt_svc;
        Some(Offered { alt_svc, port })
    }

    /// Keeps the origin for which an offer may be told later. A head that was not checked does not come here.
    pub(super) fn note_authority(&mut self, head: &impl RequestHead) {
        if self.listener_policy.http3.is_none() || !self.observer.may_tell_later() {
            return;
        }
        let authority = head.authority().filter(|it| it.len() <= MAX_AUTHORITY);
        if self.authority.as_deref() != authority {
            self.authority = authority.map(Into::into);
        }
    }

    /// The offer that was kept for the time when the connection idles, which it does now: an origin (RFC 6454 section
    /// 6.2), that of the latest request, and the value of its Alt-Svc field. `None` where nothing was kept, or the
    /// page has shown that HTTP/2 is faster.
    pub(crate) fn tell_later(
        &mut self,
        now: Now,
        read: impl FnOnce() -> Option<Counters>,
    ) -> Option<(String, String)> {
        let authority = self.authority.take()?;
        let selection = selection(&self.responder, self.listener_policy)?;
        let load = self.responder.load.share(now.instant);
        let decision = self
            .observer
            .idle(selection, load, now.instant, now.unix, read);
        self.count_page();
        let offered = self.offered(decision.as_ref())?;
        let AltSvc::Advertise { .. } = offered.alt_svc else {
            return None;
        };
        let value = offered.alt_svc.field_value(offered.port)?;
        let authority = std::str::from_utf8(&authority).ok()?;
        let host = authority.strip_suffix(":443").unwrap_or(authority);
        Some((format!("https://{host}"), value))
    }
}
