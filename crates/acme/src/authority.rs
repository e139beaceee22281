//! An authority: the account at it, and errors of instant-acme as failures of the schedule.

use crate::ask::Program;
use crate::certificate::Issued;
use crate::client::{Client, LATEST_RESPONSE, ResponseFacts};
use crate::schedule::{Cause, Failure, Window};
use crate::{Error, Folder, Settings};
use instant_acme::{
    Account, AccountCredentials, Error as AcmeError, ExternalAccountKey, Identifier, NewAccount,
    NewOrder, Order, Problem,
};
use std::cell::Cell;
use std::time::Duration;
use tokio::sync::Mutex;

/// Attempts at a request whose nonce is rejected (RFC 8555 section 6.5), beside the three that instant-acme makes of each.
const ATTEMPTS: u32 = 8;

/// The time to the next question for the time of renewal where there is no answer (RFC 9773 section 4.3.3).
const RENEWAL_INFO_INTERVAL: Duration = Duration::from_secs(6 * 3_600);

/// The time to the next such question at an authority that does not know of them.
const RENEWAL_INFO_UNSUPPORTED_INTERVAL: Duration = Duration::from_secs(86_400);

/// The longest text of a failure, in characters: it comes from the authority, and is shown.
const MAX_MESSAGE: usize = 500;

/// An authority, and the account at it.
pub(crate) struct Authority {
    pub(crate) settings: Settings,
    pub(crate) folder: Folder,
    /// The question for names that come at run time; `None`: no name is had on demand.
    pub(crate) program: Option<Program>,
    client: Client,
    /// The account; `None` until it is needed, and after a failure: the directory is then read
    /// again.
    account: Mutex<Option<Account>>,
}

impl Authority {
    /// Makes an authority without asking it anything.
    pub(crate) fn new(settings: Settings) -> Result<Self, Error> {
        let client = Client::new(settings.roots.as_deref(), &settings.user_agent)?;
        let asking = settings.on_demand.as_ref();
        let program = asking.map(|it| Program::new(&it.url, &settings.user_agent));
        Ok(Self {
            folder: Folder::new(&settings.folder, &settings.directory),
            program: program.transpose()?,
            settings,
            client,
            account: Mutex::default(),
        })
    }

    /// The account: of the folder, or registered now.
    pub(crate) async fn account(&self) -> Result<Account, Failure> {
        let mut account = self.account.lock().await;
        if let Some(account) = &*account {
            return Ok(account.clone());
        }
        let path = self.folder.account();
        let kept = self.folder.read(&path).map_err(|error| own_fault(&error))?;
        let kept = kept.and_then(|text| serde_json::from_str::<AccountCredentials>(&text).ok());
        let made = match kept {
            Some(credentials) => {
                let builder = Account::builder_with_http(Box::new(self.client.clone()));
                let restored = builder.from_credentials(credentials).await;
                let restored = restored.map_err(|error| failure(&error))?;
                self.update_contact(&restored).await;
                restored
            }
            None => {
                let (made, credentials) = self.register().await?;
                let text =
                    serde_json::to_string(&credentials).map_err(|error| own_fault(&error))?;
                self.folder
                    .write(&path, &text)
                    .map_err(|error| own_fault(&error))?;
                self.save_contact();
                made
            }
        };
        *account = Some(made.clone());
        Ok(made)
    }

    /// Tells the authority of another address for mail than it was told last (RFC 8555 section 7.3.2). One that it does not
    /// take keeps no certificate back.
    async fn update_contact(&self, account: &Account) {
        let told = self.folder.read(&self.folder.contact()).ok().flatten();
        // Of an account whose address is not known, one that a configuration leaves out is left as it is.
        let is_kept = told.is_none() && self.settings.email.is_none();
        if is_kept || told.as_deref() == Some(&self.contact_text()) {
            return;
        }
        let contact = self.contact();
        let contact: Vec<_> = contact.iter().map(String::as_str).collect();
        match again(async || account.update_contacts(&contact).await).await {
            Ok(()) => self.save_contact(),
            Err(error) => {
                let failure = failure(&error);
                let reason = failure.message;
                tracing::warn!("the authority does not take the address for mail: {reason}");
            }
        }
    }

    /// Tells the authority of another address for mail, if there is an account. A failure is logged, and it
    /// is tried again later.
    pub(crate) async fn contact_changed(&self) {
        if self.folder.account().is_file()
            && let Err(failure) = self.account().await
        {
            let reason = failure.message;
            tracing::warn!("the authority is told of the address for mail later: {reason}");
        }
    }

    fn save_contact(&self) {
        if let Err(error) = self
            .folder
            .write(&self.folder.contact(), &self.contact_text())
        {
            tracing::warn!("{error}: the authority is told of the address for mail again");
        }
    }

    fn contact_text(&self) -> String {
        serde_json::json!({ "email": self.settings.email }).to_string()
    }

    fn contact(&self) -> Option<String> {
        let email = self.settings.email.as_ref();
        email.map(|email| format!("mailto:{email}"))
    }

    async fn register(&self) -> Result<(Account, AccountCredentials), Failure> {
        let contact = self.contact();
        let contact: Vec<_> = contact.iter().map(String::as_str).collect();
        let account = NewAccount {
            contact: &contact,
            // Whoever writes `[acme]` agrees.
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let external = self.settings.external_account.as_ref();
        let external = external.map(|it| ExternalAccountKey::new(it.id.clone(), &it.key));
        let directory = &self.settings.directory;
        let register = again(async || {
            let builder = Account::builder_with_http(Box::new(self.client.clone()));
            let made = builder.create(&account, directory.clone(), external.as_ref());
            made.await
        });
        // Without an account no name can be had.
        register.await.map_err(|error| match failure(&error) {
            failed if failed.cause == Cause::Authority => failed,
            failed => Failure {
                cause: Cause::Account,
                ..failed
            },
        })
    }

    /// Drops the account from memory after a failure of authority or account, so that both are read again. An account
    /// that the authority does not know is set aside in the folder.
    pub(crate) async fn look_again(&self, failure: &Failure) {
        if !matches!(failure.cause, Cause::Authority | Cause::Account) {
            return;
        }
        *self.account.lock().await = None;
        if failure.message.contains("accountDoesNotExist") {
            // It is kept beside: an authority that errs may know it again.
            self.folder.set_account_aside();
        }
    }

    /// Makes an order for a name, in place of the certificate that is held if that is given.
    pub(crate) async fn new_order(
        &self,
        account: &Account,
        name: &str,
        replaces: Option<&Issued>,
    ) -> Result<Order, Failure> {
        let identifiers = [Identifier::Dns(name.to_owned())];
        let new = || {
            let order = NewOrder::new(&identifiers);
            match &self.settings.profile {
                Some(profile) => order.profile(profile),
                None => order,
            }
        };
        let replaced = replaces.and_then(Issued::identifier);
        let order = match &replaced {
            Some(identifier) => new().replaces(identifier.clone()),
            None => new(),
        };
        let made = again(async || account.new_order(&order).await).await;
        let made = match made {
            // An authority without ARI.
            Err(AcmeError::Unsupported(_)) if replaced.is_some() => {
                again(async || account.new_order(&new()).await).await
            }
            made => made,
        };
        made.map_err(|error| match &error {
            AcmeError::Other(cause) if cause.to_string().contains("replaces field") => Failure {
                cause: Cause::Order,
                ..failure(&error)
            },
            _ => failure(&error),
        })
    }

    /// The time of renewal of a certificate, as the authority suggests it, and the time to the next question.
    pub(crate) async fn renewal_info(&self, held: &Issued) -> (Option<Window>, Duration) {
        let Some(identifier) = held.identifier() else {
            return (None, RENEWAL_INFO_UNSUPPORTED_INTERVAL);
        };
        let Ok(account) = self.account().await else {
            return (None, RENEWAL_INFO_INTERVAL);
        };
        match account.renewal_info(&identifier).await {
            Ok((info, ask_after)) => {
                let window = info.suggested_window;
                let (start, end) = (window.start.into(), window.end.into());
                (Some(Window { start, end }), ask_after)
            }
            Err(AcmeError::Unsupported(_)) => (None, RENEWAL_INFO_UNSUPPORTED_INTERVAL),
            Err(error) => {
                tracing::debug!(%error, "no answer as to when to renew");
                (None, RENEWAL_INFO_INTERVAL)
            }
        }
    }
}

/// Asks again while nonces are rejected.
pub(crate) async fn again<T>(
    mut ask: impl AsyncFnMut() -> Result<T, AcmeError>,
) -> Result<T, AcmeError> {
    let mut attempts = 0;
    loop {
        let answer = ask().await;
        attempts += 1;
        match &answer {
            Err(AcmeError::Api(problem)) if is_bad_nonce(problem) && attempts < ATTEMPTS => {}
            _ => return answer,
        }
    }
}

fn is_bad_nonce(problem: &Problem) -> bool {
    let kind = problem.r#type.as_deref();
    kind.is_some_and(|kind| kind.ends_with(":badNonce"))
}

/// An error of instant-acme as a failure, with what the response said beside it.
pub(crate) fn failure(error: &AcmeError) -> Failure {
    let response_facts = LATEST_RESPONSE.try_with(Cell::get).unwrap_or_default();
    match error {
        AcmeError::Api(problem) => of_problem(problem, response_facts),
        error => Failure {
            cause: match error {
                AcmeError::Unsupported(_) | AcmeError::Crypto | AcmeError::KeyRejected => {
                    Cause::Account
                }
                _ => Cause::Authority,
            },
            retry_after: response_facts.retry_after,
            message: shortened(&error.to_string()),
        },
    }
}

/// A problem document (RFC 7807) as a failure.
pub(crate) fn of_problem(problem: &Problem, response_facts: ResponseFacts) -> Failure {
    let status = problem.status.or(response_facts.status);
    let kind = problem.r#type.as_deref();
    let mut message = problem.detail.clone().unwrap_or_default();
    for sub in &problem.subproblems {
        message += &format!("; {}", sub.detail.as_deref().unwrap_or_default());
    }
    let kind_word = kind.map(|kind| kind.rsplit(':').next().unwrap_or(kind));
    if let Some(word) = kind_word {
        message += &format!(" ({word})");
    }
    Failure {
        cause: Cause::of_problem(kind, status),
        retry_after: response_facts.retry_after,
        message: shortened(message.trim()),
    }
}

/// A failure of this machine, of the disk for instance.
pub(crate) fn own_fault(error: &dyn std::error::Error) -> Failure {
    let message = match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    Failure {
        cause: Cause::Account,
        retry_after: None,
        message,
    }
}

/// A line of bounded length without control characters.
fn shortened(text: &str) -> String {
    let plain = text
        .chars()
        .map(|it| if it.is_control() { ' ' } else { it });
    plain.take(MAX_MESSAGE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> Problem {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_problem_is_told_in_a_line_with_its_kind() {
        let response_facts = ResponseFacts {
            status: Some(403),
            retry_after: Some(Duration::from_secs(9)),
        };
        let text = r#"{"type":"urn:ietf:params:acme:error:unauthorized","detail":"wrong\nanswer"}"#;
        let found = of_problem(&problem(text), response_facts);
        assert_eq!(found.message, "wrong answer (unauthorized)");
        assert_eq!(found.cause, Cause::Name);
        assert_eq!(found.retry_after, response_facts.retry_after);
        let long = format!(r#"{{"detail":"{}"}}"#, "a".repeat(10_000));
        assert_eq!(
            of_problem(&problem(&long), response_facts).message.len(),
            MAX_MESSAGE
        );
        let response_facts = ResponseFacts {
            status: Some(503),
            ..response_facts
        };
        assert_eq!(
            of_problem(&problem("{}"), response_facts).cause,
            Cause::Authority
        );
    }

    #[test]
    fn what_is_no_answer_of_an_authority_is_its_fault() {
        let cause = |error: AcmeError| failure(&error).cause;
        assert_eq!(cause(AcmeError::Other("refused".into())), Cause::Authority);
        assert_eq!(cause(AcmeError::Str("no nonce")), Cause::Authority);
        assert_eq!(cause(AcmeError::Unsupported("profiles")), Cause::Account);
    }
}
