//! TLS 1.3 and QUIC with the encryption switched off, to tell what it costs. For `shares` alone.
//!
//! Hand-shake, record and packet formats stay as they are; records and packets carry their plain text
//! and sixteen zeroes where the authentication tag belongs. **It protects nothing.** It stands under
//! the number of a real cipher suite, so a peer without it fails to decipher and hangs up; only the
//! two ends that `shares` starts within this process, on loopback, ever have it.

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, cipher_suite};
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, MessageDecrypter, MessageEncrypter,
    OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload, Tls13AeadAlgorithm,
    UnsupportedOperationError,
};
use rustls::quic::{Algorithm, HeaderProtectionKey, PacketKey, Tag};
use rustls::{
    ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion, SupportedCipherSuite,
    Tls13CipherSuite,
};
use std::sync::LazyLock;

/// Bytes of an authentication tag, and of what is sampled to protect a header (RFC 9001 section 5).
const TAG_BYTES: usize = 16;

/// Key length of AES-128.
const KEY_BYTES: usize = 16;

/// The suite in the place of TLS_AES_128_GCM_SHA256, whose number and hash it keeps.
static SUITE: LazyLock<Tls13CipherSuite> = LazyLock::new(|| {
    let SupportedCipherSuite::Tls13(real) = cipher_suite::TLS13_AES_128_GCM_SHA256 else {
        unreachable!("its name says that it is of TLS 1.3");
    };
    Tls13CipherSuite {
        common: rustls::crypto::CipherSuiteCommon {
            suite: real.common.suite,
            hash_provider: real.common.hash_provider,
            confidentiality_limit: u64::MAX,
        },
        hkdf_provider: real.hkdf_provider,
        aead_alg: &Plain,
        quic: Some(&Plain),
    }
});

/// Cryptography for handshakes as ever, and none after them.
pub(crate) fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![SupportedCipherSuite::Tls13(&SUITE)],
        ..aws_lc_rs::default_provider()
    }
}

/// The algorithm that does nothing, and its keys.
struct Plain;

impl Tls13AeadAlgorithm for Plain {
    fn encrypter(&self, _: AeadKey, _: Iv) -> Box<dyn MessageEncrypter> {
        Box::new(Self)
    }

    fn decrypter(&self, _: AeadKey, _: Iv) -> Box<dyn MessageDecrypter> {
        Box::new(Self)
    }

    fn key_len(&self) -> usize {
        KEY_BYTES
    }

    fn extract_keys(
        &self,
        _: AeadKey,
        _: Iv,
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        Err(UnsupportedOperationError)
    }
}

impl MessageEncrypter for Plain {
    /// The record of RFC 8446 section 5.2, in the clear.
    fn encrypt(
        &mut self,
        message: OutboundPlainMessage<'_>,
        _: u64,
    ) -> Result<OutboundOpaqueMessage, Error> {
        let length = self.encrypted_payload_len(message.payload.len());
        let mut record = PrefixedPayload::with_capacity(length);
        record.extend_from_chunks(&message.payload);
        record.extend_from_slice(&[message.typ.into()]);
        record.extend_from_slice(&[0; TAG_BYTES]);
        Ok(OutboundOpaqueMessage::new(
            ContentType::ApplicationData,
            ProtocolVersion::TLSv1_2,
            record,
        ))
    }

    fn encrypted_payload_len(&self, payload: usize) -> usize {
        payload + 1 + TAG_BYTES
    }
}

impl MessageDecrypter for Plain {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        _: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let plain = without_tag(&message.payload)?.len();
        message.payload.truncate(plain);
        message.into_tls13_unpadded_message()
    }
}

impl Algorithm for Plain {
    fn packet_key(&self, _: AeadKey, _: Iv) -> Box<dyn PacketKey> {
        Box::new(Self)
    }

    fn header_protection_key(&self, _: AeadKey) -> Box<dyn HeaderProtectionKey> {
        Box::new(Self)
    }

    fn aead_key_len(&self) -> usize {
        KEY_BYTES
    }
}

impl PacketKey for Plain {
    fn encrypt_in_place(&self, _: u64, _: &[u8], _: &mut [u8]) -> Result<Tag, Error> {
        Ok(Tag::from(&[0; TAG_BYTES][..]))
    }

    fn decrypt_in_place<'a>(
        &self,
        _: u64,
        _: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a [u8], Error> {
        without_tag(payload)
    }

    fn tag_len(&self) -> usize {
        TAG_BYTES
    }

    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }

    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}

impl HeaderProtectionKey for Plain {
    fn encrypt_in_place(&self, _: &[u8], _: &mut u8, _: &mut [u8]) -> Result<(), Error> {
        Ok(())
    }

    fn decrypt_in_place(&self, _: &[u8], _: &mut u8, _: &mut [u8]) -> Result<(), Error> {
        Ok(())
    }

    fn sample_len(&self) -> usize {
        TAG_BYTES
    }
}

/// Returns what stands before the tag, which must be the one that is no tag.
fn without_tag(payload: &[u8]) -> Result<&[u8], Error> {
    match payload.split_last_chunk::<TAG_BYTES>() {
        Some((plain, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])) => Ok(plain),
        _ => Err(Error::DecryptError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_real_cipher_made_is_refused() {
        assert!(without_tag(&[7; 40]).is_err());
        assert!(without_tag(&[0; 15]).is_err());
        assert_eq!(without_tag(&[0; 16]), Ok(&[][..]));
    }
}
