//! The identity of a client by its certificate: found out for each request, before anything answers it.

use crate::client_auth::ClientCertificate;
use crate::request::requests::{Now, Requests};
use http::StatusCode;
use rustls::pki_types::UnixTime;
use std::time::UNIX_EPOCH;

/// A connection's certificate as one snapshot's roots judge it.
pub(crate) struct Identified {
    /// The number of the snapshot by which it was found.
    snapshot: u64,
    /// The index of the demand among the snapshot's.
    asked: usize,
    certificate: Option<ClientCertificate>,
}

impl<I> Requests<I> {
    /// Finds the certificate that counts for a request: one that the roots of its site have signed. `asked` is the index
    /// of the site's demand; a site that has none is told of no certificate.
    ///
    /// # Errors
    /// 421 (Misdirected Request, RFC 9110 section 15.5.20): its site asks for certificates, and the client has connected
    /// by a name of which it was asked for another one or none, or without TLS. 403: the site does not go without, and
    /// the client has none that is good for it.
    pub(super) fn identify(&mut self, asked: Option<usize>, now: Now) -> Result<(), StatusCode> {
        self.certificate = None;
        let snapshot = self.responder.snapshot.borrow();
        let Some((asked, names)) = asked.zip(snapshot.asked_names.as_ref()) else {
            return Ok(());
        };
        let presented = self.presented.as_deref();
        let is_of_name = |name| names.of_name(name) == Some(asked);
        let presented = presented.filter(|it| is_of_name(it.name.as_deref()));
        let presented = presented.ok_or(StatusCode::MISDIRECTED_REQUEST)?;
        let is_known = |it: &&Identified| it.snapshot == snapshot.number && it.asked == asked;
        let certificate = match self.identified.as_ref().filter(is_known) {
            Some(known) => known.certificate.clone(),
            None => {
                let since = now.system.duration_since(UNIX_EPOCH);
                let time = UnixTime::since_unix_epoch(since.unwrap_or_default());
                let certificate = names.get(asked).accept(&presented.chain, time);
                self.identified = Some(Identified {
                    snapshot: snapshot.number,
                    asked,
                    certificate: certificate.clone(),
                });
                certificate
            }
        };
        if certificate.is_none() && names.get(asked).is_required() {
            return Err(StatusCode::FORBIDDEN);
        }
        self.certificate = certificate;
        Ok(())
    }
}
