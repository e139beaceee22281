//! The fields that every response has: Date, Server and Alt-Svc, made once for all responses of a
//! second.

use altway_http2::{FieldBlock, Indexing};
use altway_select::{AltSvc, UnixTime};
use http::HeaderValue;
use http::header::{self, HeaderMap, HeaderName};
use std::time::{Duration, UNIX_EPOCH};

const SERVER: HeaderValue = HeaderValue::from_static("altway");

/// Alt-Svc values of which the fields are kept. A policy has about three for each port.
const MAX_OFFERS: usize = 32;

/// The answer to a client's question for HTTP/3: what Alt-Svc says, and the port that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offered {
    pub(crate) alt_svc: AltSvc,
    pub(crate) port: u16,
}

/// The fields in both forms in which responses take them: as they are, and encoded for HTTP/2.
#[derive(Debug)]
pub(crate) struct CommonFields {
    second: UnixTime,
    date: HeaderValue,
    /// Date and Server.
    encoded: FieldBlock,
    /// Date alone.
    encoded_date: FieldBlock,
    offers: Vec<Offer>,
}

#[derive(Debug)]
struct Offer {
    offered: Offered,
    value: HeaderValue,
    encoded: FieldBlock,
}

impl CommonFields {
    pub(crate) fn new() -> Self {
        let second = UnixTime::from_secs(0);
        let date = date(second);
        Self {
            second,
            encoded: encoded(&date),
            encoded_date: block([(&header::DATE, &date)]),
            date,
            offers: Vec::new(),
        }
    }

    /// Adds the fields to those of a response at `time`: Date and Server where they are missing, and what
    /// is offered of HTTP/3.
    pub(crate) fn complete(
        &mut self,
        headers: &mut HeaderMap,
        offered: Option<Offered>,
        second: UnixTime,
    ) {
        self.advance(second);
        headers
            .entry(header::DATE)
            .or_insert_with(|| self.date.clone());
        headers.entry(header::SERVER).or_insert(SERVER);
        if let Some(at) = self.offer(offered) {
            headers.insert(header::ALT_SVC, self.offers[at].value.clone());
        }
    }

    /// The same fields for HTTP/2: Date, Server unless the response `has_server`, and Alt-Svc unless it is left out.
    pub(crate) fn encoded(
        &mut self,
        has_server: bool,
        offered: Option<Offered>,
        second: UnixTime,
    ) -> (&FieldBlock, Option<&FieldBlock>) {
        self.advance(second);
        let offer = self.offer(offered);
        let common = match has_server {
            true => &self.encoded_date,
            false => &self.encoded,
        };
        (common, offer.map(|at| &self.offers[at].encoded))
    }

    fn advance(&mut self, second: UnixTime) {
        if second != self.second {
            self.second = second;
            self.date = date(second);
            self.encoded = encoded(&self.date);
            self.encoded_date = block([(&header::DATE, &self.date)]);
        }
    }

    /// The index of the offer; `None` where Alt-Svc is left out.
    fn offer(&mut self, offered: Option<Offered>) -> Option<usize> {
        let offered = offered?;
        let known = self.offers.iter().position(|it| it.offered == offered);
        if known.is_some() {
            return known;
        }
        let value = offered.alt_svc.field_value(offered.port)?;
        let value = HeaderValue::try_from(value).expect("visible ASCII");
        if self.offers.len() == MAX_OFFERS {
            self.offers.remove(0);
        }
        self.offers.push(Offer {
            offered,
            encoded: block([(&header::ALT_SVC, &value)]),
            value,
        });
        Some(self.offers.len() - 1)
    }
}

fn date(second: UnixTime) -> HeaderValue {
    let time = UNIX_EPOCH + Duration::from_secs(second.as_secs());
    HeaderValue::try_from(httpdate::fmt_http_date(time)).expect("a date is visible ASCII")
}

fn encoded(date: &HeaderValue) -> FieldBlock {
    block([(&header::DATE, date), (&header::SERVER, &SERVER)])
}

fn block<'a>(fields: impl IntoIterator<Item = (&'a HeaderName, &'a HeaderValue)>) -> FieldBlock {
    FieldBlock::new(fields, Indexing::Incremental)
}
