//! The steps of an order: its challenge answered, the certificate asked for, and kept.

use crate::Folder;
use crate::authority::{Authority, again, failure, of_problem, own_fault};
use crate::certificate::{self, Issued};
use crate::client::{LATEST_RESPONSE, ResponseFacts};
use crate::responder::{BoxError, Responder};
use crate::schedule::{Cause, Challenge, Failure, Validity};
use instant_acme::{
    AuthorizationStatus, ChallengeHandle, ChallengeStatus, ChallengeType, Order, OrderStatus,
};
use rcgen::KeyPair;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// An order that is not decided.
pub(crate) struct OpenOrder {
    name: String,
    order: Order,
    /// The key of the certificate to be.
    key: KeyPair,
    /// Kept until the order is decided.
    _answers: Answers,
}

/// The outcome of a step.
pub(crate) enum Step {
    /// The order, to be looked at again after the time that the authority asks for.
    Pending(Box<OpenOrder>, Option<Duration>),
    /// The certificate is in its file.
    Issued(Validity),
}

/// The parts of an order that are kept over a restart.
#[derive(Serialize, Deserialize)]
struct SavedOrder {
    url: String,
    /// PEM.
    key: String,
}

/// Answers to challenges, which end with this.
struct Answers {
    responder: Arc<dyn Responder>,
    tokens: Vec<String>,
    names: Vec<String>,
}

impl OpenOrder {
    /// Makes an order and answers its challenge.
    pub(crate) async fn begin(
        authority: &Authority,
        responder: &Arc<dyn Responder>,
        name: &str,
        challenge: Challenge,
        replaces: Option<&Issued>,
    ) -> Result<Box<Self>, Failure> {
        let account = authority.account().await?;
        let order = authority.new_order(&account, name, replaces).await?;
        let key = KeyPair::generate().map_err(|error| own_fault(&error))?;
        let kept = SavedOrder {
            url: order.url().to_owned(),
            key: key.serialize_pem(),
        };
        let text = serde_json::to_string(&kept).map_err(|error| own_fault(&error))?;
        let path = authority.folder.order(name);
        authority
            .folder
            .write(&path, &text)
            .map_err(|error| own_fault(&error))?;
        Self::answered(name, order, key, responder, challenge).await
    }

    /// Goes on with an order from before a restart.
    pub(crate) async fn resume(
        authority: &Authority,
        responder: &Arc<dyn Responder>,
        name: &str,
        challenge: Challenge,
    ) -> Result<Box<Self>, Failure> {
        let gone = |message: String| Failure {
            cause: Cause::Order,
            retry_after: None,
            message,
        };
        let text = authority
            .folder
            .read(&authority.folder.order(name))
            .ok()
            .flatten();
        let kept = text.and_then(|text| serde_json::from_str::<SavedOrder>(&text).ok());
        let kept = kept.ok_or_else(|| gone("the order from before the restart is lost".into()))?;
        let key = KeyPair::from_pem(&kept.key).map_err(|error| gone(error.to_string()))?;
        let account = authority.account().await?;
        let order = again(async || account.order(kept.url.clone()).await).await;
        let order = order.map_err(|error| match failure(&error) {
            // Such as "there is no such order".
            failed if failed.cause == Cause::Name => gone(failed.message),
            failed => failed,
        })?;
        Self::answered(name, order, key, responder, challenge).await
    }

    /// Puts the answer to the challenge where the authority looks for it, and says that it is there. Does nothing where an
    /// authorization from before still holds.
    async fn answered(
        name: &str,
        mut order: Order,
        key: KeyPair,
        responder: &Arc<dyn Responder>,
        challenge: Challenge,
    ) -> Result<Box<Self>, Failure> {
        let mut answers = Answers::new(responder);
        let wanted = match challenge {
            Challenge::Http01 => ChallengeType::Http01,
            Challenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
        };
        // All are fetched before: a stream that has failed leaves out what it failed at.
        let fetched = again(async || {
            let mut authorizations = order.authorizations();
            while let Some(authorization) = authorizations.next().await {
                authorization?;
            }
            Ok(())
        });
        fetched.await.map_err(|error| failure(&error))?;
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.map_err(|error| failure(&error))?;
            if authorization.status != AuthorizationStatus::Pending {
                continue;
            }
            let Some(mut given) = authorization.challenge(wanted.clone()) else {
                return Err(Failure {
                    cause: Cause::Name,
                    retry_after: None,
                    message: format!("the authority has no challenge {}", word(challenge)),
                });
            };
            let put = answers.put(name, challenge, &given);
            put.map_err(|error| own_fault(&*error))?;
            if given.status == ChallengeStatus::Pending {
                let ready = again(async || given.set_ready().await).await;
                ready.map_err(|error| failure(&error))?;
            }
        }
        Ok(Box::new(Self {
            name: name.into(),
            order,
            key,
            _answers: answers,
        }))
    }

    /// Looks at the order, and does what is next. An order that fails because the authority is not there is given back, to be
    /// gone on with.
    pub(crate) async fn advance(
        mut self: Box<Self>,
        authority: &Authority,
    ) -> Result<Step, (Failure, Option<Box<Self>>)> {
        match self.next_step(authority).await {
            Ok(Some(validity)) => Ok(Step::Issued(validity)),
            Ok(None) => Ok(Step::Pending(self, response_facts().retry_after)),
            Err(failure) => {
                let goes_on = failure.cause == Cause::Authority;
                Err((failure, goes_on.then_some(self)))
            }
        }
    }

    /// Returns the certificate's time once that is in its file.
    async fn next_step(&mut self, authority: &Authority) -> Result<Option<Validity>, Failure> {
        let order = &mut self.order;
        let looked = again(async || order.refresh().await.map(drop)).await;
        looked.map_err(|error| failure(&error))?;
        if order.state().status == OrderStatus::Ready {
            let request = certificate::request(&self.name, &self.key);
            let request = request.map_err(|error| own_fault(&error))?;
            let asked = again(async || order.finalize_csr(&request).await).await;
            asked.map_err(|error| failure(&error))?;
        }
        match order.state().status {
            OrderStatus::Pending | OrderStatus::Ready | OrderStatus::Processing => Ok(None),
            OrderStatus::Invalid => Err(self.refusal().await),
            OrderStatus::Valid => {
                let chain = again(async || order.certificate().await).await;
                let Some(chain) = chain.map_err(|error| failure(&error))? else {
                    return Ok(None);
                };
                keep(&self.name, &self.key, &chain, &authority.folder).map(Some)
            }
        }
    }

    /// The reason why an order is invalid, as its challenges say it: orders themselves often say nothing.
    async fn refusal(&mut self) -> Failure {
        let mut said = self.order.state().error.clone();
        let mut authorizations = self.order.authorizations();
        while let Some(Ok(mut authorization)) = authorizations.next().await {
            let _ = again(async || authorization.refresh().await.map(drop)).await;
            let mut challenges = authorization.challenges.iter();
            said = challenges.find_map(|it| it.error.clone()).or(said);
        }
        let unsaid = "the authority calls the order invalid, and does not say why";
        let said = said.map(|problem| of_problem(&problem, ResponseFacts::default()));
        let failure = said.unwrap_or_else(|| Failure {
            cause: Cause::Name,
            retry_after: None,
            message: unsaid.into(),
        });
        // Whoever's fault it was: this order does not go on.
        let cause = match failure.cause {
            Cause::RateLimit => Cause::RateLimit,
            _ => Cause::Name,
        };
        Failure { cause, ..failure }
    }
}

/// Puts a name's certificate into its file, from which on it is in use.
fn keep(name: &str, key: &KeyPair, chain: &str, folder: &Folder) -> Result<Validity, Failure> {
    let text = format!("{}\n{}", chain.trim_end(), key.serialize_pem());
    let issued = Issued::read(&text, name).map_err(|error| Failure {
        cause: Cause::Name,
        retry_after: None,
        message: format!("the authority sent a certificate that can't be used: {error}"),
    })?;
    let written = folder.write(&folder.certificate(name), &text);
    written.map_err(|error| Failure {
        // The authority has it still, until there is room: another would count against its limits.
        cause: Cause::Authority,
        ..own_fault(&error)
    })?;
    folder.remove(&folder.order(name));
    Ok(issued.validity)
}

impl Answers {
    fn new(responder: &Arc<dyn Responder>) -> Self {
        Self {
            responder: Arc::clone(responder),
            tokens: Vec::new(),
            names: Vec::new(),
        }
    }

    fn put(
        &mut self,
        name: &str,
        challenge: Challenge,
        given: &ChallengeHandle<'_>,
    ) -> Result<(), BoxError> {
        let authorization = given.key_authorization();
        match challenge {
            Challenge::Http01 => {
                let text = authorization.as_str();
                self.responder.answer_http(&given.token, text)?;
                self.tokens.push(given.token.clone());
            }
            Challenge::TlsAlpn01 => {
                let digest = authorization.digest();
                let (certificate, key) = certificate::answer(name, digest.as_ref())?;
                self.responder.answer_tls(name, certificate, key)?;
                self.names.push(name.to_owned());
            }
        }
        Ok(())
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        for token in &self.tokens {
            self.responder.remove_http(token);
        }
        for name in &self.names {
            self.responder.remove_tls(name);
        }
    }
}

fn response_facts() -> ResponseFacts {
    LATEST_RESPONSE.try_with(Cell::get).unwrap_or_default()
}

fn word(challenge: Challenge) -> &'static str {
    match challenge {
        Challenge::Http01 => "http-01",
        Challenge::TlsAlpn01 => "tls-alpn-01",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_certificate_for_which_there_is_no_room_is_no_reason_to_order_another() {
        const NAME: &str = "a.example";
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path(), "https://acme.example/dir");
        let (path, order) = (folder.certificate(NAME), folder.order(NAME));
        // No file can have its name.
        fs::create_dir_all(path.join("in the way")).unwrap();
        folder.write(&order, "{}").unwrap();
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
        let kept = || keep(NAME, &made.signing_key, &made.cert.pem(), &folder);
        assert_eq!(kept().unwrap_err().cause, Cause::Authority, "it goes on");
        assert!(order.exists());
        fs::remove_dir_all(&path).unwrap();
        kept().unwrap();
        assert!(path.is_file() && !order.exists());
    }
}
