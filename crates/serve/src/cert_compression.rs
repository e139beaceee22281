//! Compression of the server's certificate chain (RFC 8879) with Brotli, which Chromium, Safari and Firefox offer.
//!
//! Keys and signatures are random and stay as large; names, dates and what else each certificate repeats of the
//! one before shrink. Over QUIC that may save a round trip: until a client's address is validated a server
//! sends three times what came from there (RFC 9000 section 8.1).

use rustls::compress::{CertCompressor, CompressionCache, CompressionFailed, CompressionLevel};
use rustls::{CertificateCompressionAlgorithm, ServerConfig};
use std::io::Write;
use std::sync::Arc;

/// Compressed chains that are kept, the least recently used forgotten first: those of as many sites, of a few KiB each.
/// A server with more sites compresses some chains anew.
const MAX_KEPT: usize = 64;

/// Brotli's scale goes to 11. A chain of 4 KiB takes some tenths of a millisecond at this, which a handshake
/// bears where the chain is not kept.
const QUALITY: u32 = 5;

/// The binary logarithm of the window's size: 64 KiB, more than chains have.
const WINDOW_BITS: u32 = 16;

/// Bytes of the compressor's buffer.
const BUFFER: usize = 4096;

/// The compressed chains that the settings of both transports share.
pub(crate) fn cache() -> Arc<CompressionCache> {
    Arc::new(CompressionCache::new(MAX_KEPT))
}

/// Makes handshakes with `config` show compressed chains to clients that can read them, and keep them in
/// `cache`.
pub(crate) fn enable(config: &mut ServerConfig, cache: &Arc<CompressionCache>) {
    config.cert_compressors = vec![&Brotli];
    config.cert_compression_cache = Arc::clone(cache);
}

/// Brotli (RFC 7932), the algorithm 2 of RFC 8879 section 7.3.
#[derive(Debug)]
struct Brotli;

impl CertCompressor for Brotli {
    fn compress(
        &self,
        input: Vec<u8>,
        _level: CompressionLevel,
    ) -> Result<Vec<u8>, CompressionFailed> {
        let room = Vec::with_capacity(input.len());
        let mut writer = brotli::CompressorWriter::new(room, BUFFER, QUALITY, WINDOW_BITS);
        // Writing to memory does not fail.
        writer.write_all(&input).map_err(|_| CompressionFailed)?;
        let compressed = writer.into_inner();
        // A chain that grows is sent as it is.
        match compressed.len() < input.len() {
            true => Ok(compressed),
            false => Err(CompressionFailed),
        }
    }

    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        CertificateCompressionAlgorithm::Brotli
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certs::Store;
    use crate::{Certificates, Identity, Options, tls};
    use rustls::compress::{CertDecompressor, DecompressionFailed};
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use std::path::Path;

    #[test]
    fn chains_are_read_as_they_were_and_those_that_would_grow_stay_as_they_are() {
        let chain = b"CN=altway.test, O=altway, ".repeat(40);
        let compressed = Brotli
            .compress(chain.clone(), CompressionLevel::Amortized)
            .unwrap();
        assert!(compressed.len() < chain.len() / 4, "{}", compressed.len());
        let mut read = Vec::new();
        brotli::BrotliDecompress(&mut compressed.as_slice(), &mut read).unwrap();
        assert_eq!(read, chain);
        let mut random = vec![0; 256];
        tls::provider().secure_random.fill(&mut random).unwrap();
        assert!(
            Brotli
                .compress(random, CompressionLevel::Amortized)
                .is_err()
        );
    }

    /// Bytes that the server sends in answer to a hello, whose client reads Brotli or does not.
    fn first_flight(chain: &Identity, root: &Path, sends: bool, reads: bool) -> usize {
        let options = Options {
            certificate_compression: sends,
            ..Options::clear_text()
        };
        let tls = tls::configs(Certificates::new(chain.clone()), &options, false).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        let read = CertificateDer::pem_file_iter(root).unwrap();
        roots.add_parsable_certificates(read.map(Result::unwrap));
        let provider = Arc::new(tls::provider());
        let mut client = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.alpn_protocols = vec![b"h2".to_vec()];
        if reads {
            client.cert_decompressors = vec![&Brotli];
        }
        let name = "altway.test".try_into().unwrap();
        let mut client = rustls::ClientConnection::new(Arc::new(client), name).unwrap();
        let mut server = rustls::ServerConnection::new(Arc::clone(&tls.tcp)).unwrap();
        let (mut hello, mut flight) = (Vec::new(), Vec::new());
        client.write_tls(&mut hello).unwrap();
        server.read_tls(&mut hello.as_slice()).unwrap();
        server.process_new_packets().unwrap();
        while server.wants_write() {
            server.write_tls(&mut flight).unwrap();
        }
        let mut unread = flight.as_slice();
        while !unread.is_empty() {
            client.read_tls(&mut unread).unwrap();
            client.process_new_packets().unwrap();
        }
        assert!(!client.is_handshaking(), "the chain was not believed");
        flight.len()
    }

    impl CertDecompressor for Brotli {
        fn decompress(&self, input: &[u8], output: &mut [u8]) -> Result<(), DecompressionFailed> {
            let mut read = Vec::new();
            brotli::BrotliDecompress(&mut &*input, &mut read).map_err(|_| DecompressionFailed)?;
            output.copy_from_slice(&read);
            Ok(())
        }

        fn algorithm(&self) -> CertificateCompressionAlgorithm {
            CertificateCompressionAlgorithm::Brotli
        }
    }

    #[test]
    fn a_chain_of_rsa_keys_is_sent_in_fewer_bytes_to_a_client_that_reads_brotli() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let leaf = store.rsa_chain(&["altway.test"]).unwrap();
        let chain = Identity::from_pem_files(&leaf.certificate, &leaf.key).unwrap();
        let flight = |sends, reads| first_flight(&chain, &store.rsa_root(), sends, reads);
        let [plain, not_read, not_sent] = [(false, false), (true, false), (false, true)]
            .map(|(sends, reads)| flight(sends, reads));
        let compressed = flight(true, true);
        eprintln!("a first flight of {plain} bytes, {compressed} compressed");
        assert!(plain.abs_diff(not_read) < 16 && plain.abs_diff(not_sent) < 16);
        assert!(compressed + 300 < plain, "{compressed} of {plain}");
    }
}
