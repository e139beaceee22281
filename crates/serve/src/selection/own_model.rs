//! A model of the embedder's, kept from harming more than its own decision: it is asked on the threads of connections, where
//! a panic would cost those of the whole worker.

use crate::request::panic_guard::catch_panic;
use crate::throttle::Throttle;
use altway_select::Model;
use altway_select::model::{Context, Judgement};
use std::sync::Arc;
use std::time::Instant;

/// Lines about models that panic: they may at each decision.
static PANICS: Throttle = Throttle::new();

/// A model of the embedder's, and the policy that decides where it panics.
#[derive(Debug)]
pub(super) struct OwnModel {
    pub(super) model: Arc<dyn Model>,
    pub(super) policy: Box<dyn Model>,
}

impl Model for OwnModel {
    fn judge(&self, context: &Context<'_>) -> Judgement {
        catch_panic(|| self.model.judge(context)).unwrap_or_else(|panic| {
            if let Some(suppressed) = PANICS.admit(Instant::now()) {
                tracing::error!(error = %panic, suppressed, "the program's model failed: the policy decides");
            }
            self.policy.judge(context)
        })
    }

    fn learns(&self) -> bool {
        catch_panic(|| self.model.learns()).unwrap_or_else(|_| self.policy.learns())
    }
}
