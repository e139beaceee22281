//! quinn-proto's settings of an endpoint, and the connection IDs that it makes.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use quinn_proto::{ConnectionId, ConnectionIdGenerator, EndpointConfig, InvalidCid};

use crate::connection_ids::{Generator, derive};
use crate::{CONNECTION_ID_BYTES, ConnectionIds, ResetKey, Version};

/// Settings of an endpoint: what is random in them follows from the seed.
pub(super) fn engine_config(
    versions: &[Version],
    ids: Option<ConnectionIds>,
    reset_key: Option<ResetKey>,
    seed: [u8; 32],
) -> EndpointConfig {
    let reset_key = reset_key.map_or_else(|| derive(seed, b"reset key"), |ResetKey(key)| key);
    let reset_key = hmac::Key::new(hmac::HMAC_SHA256, &reset_key);
    let mut config = EndpointConfig::new(Arc::new(reset_key));
    config.rng_seed(Some(seed));
    config.supported_versions(versions.iter().map(|version| version.number()).collect());
    if let Some(ids) = ids {
        let generator = Generator::new(ids, derive(seed, b"connection ids"));
        config.cid_generator(move || Box::new(generator.clone()));
    }
    config
}

impl ConnectionIdGenerator for Generator {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&self.generate())
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        match self.is_answerable(id) {
            true => Ok(()),
            false => Err(InvalidCid),
        }
    }

    fn cid_len(&self) -> usize {
        CONNECTION_ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}
