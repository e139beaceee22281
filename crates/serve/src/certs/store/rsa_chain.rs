//! A chain as large authorities have it, for measuring: leaf, intermediate and root with RSA keys, the
//! root sent along, some 4 KB. What QUIC may send before it knows the client's address is less.

use super::{LEAF_LIFE, Leaf, Store, parse, replace, set_validity};
use crate::Error;
use crate::certs::names::Names;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_RSA_SHA256, RsaKeySize,
};
use std::path::PathBuf;

const ROOT: &str = "rsa-ca.pem";
const CHAIN: &str = "rsa-chain.pem";
const CHAIN_KEY: &str = "rsa-chain.key";

impl Store {
    /// The root of [`rsa_chain`](Self::rsa_chain), as PEM: what clients are to trust.
    #[must_use]
    pub fn rsa_root(&self) -> PathBuf {
        self.dir().join(ROOT)
    }

    /// Makes a chain of RSA certificates for the names of [`leaf`](Self::leaf): a leaf of 2,048 bits, an
    /// intermediate and a root of 4,096. The keys of the latter two are never written, so that nothing
    /// else can be signed with them.
    ///
    /// # Errors
    /// A name is none; a file can't be written.
    pub fn rsa_chain<S: AsRef<str>>(&self, names: &[S]) -> Result<Leaf, Error> {
        let names = Names::new(names)?;
        let root_key = rsa_key(RsaKeySize::_4096)?;
        let root_params = authority("altway RSA root for measuring", 1);
        let root = root_params
            .self_signed(&root_key)
            .map_err(Error::generate)?;
        let root_issuer = Issuer::new(root_params, root_key);

        let middle_key = rsa_key(RsaKeySize::_4096)?;
        let middle_params = authority("altway RSA intermediate for measuring", 0);
        let middle = middle_params
            .signed_by(&middle_key, &root_issuer)
            .map_err(Error::generate)?;
        let middle_issuer = Issuer::new(middle_params, middle_key);

        let key = rsa_key(RsaKeySize::_2048)?;
        let leaf = super::leaf_params(&names)?
            .signed_by(&key, &middle_issuer)
            .map_err(Error::generate)?;

        let (path, key_path) = (self.dir().join(CHAIN), self.dir().join(CHAIN_KEY));
        replace(&key_path, &key.serialize_pem())?;
        let chain = [leaf.pem(), middle.pem(), root.pem()].concat();
        replace(&path, &chain)?;
        replace(&self.rsa_root(), &root.pem())?;
        let parsed = parse(&path, leaf.der())?;
        Ok(Leaf {
            is_new: true,
            ..Leaf::of(&parsed, path, key_path)
        })
    }
}

fn rsa_key(size: RsaKeySize) -> Result<KeyPair, Error> {
    KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, size).map_err(Error::generate)
}

/// An authority with room for so many authorities below it.
fn authority(name: &str, below: u8) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(below));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, LEAF_LIFE);
    params
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use x509_parser::prelude::{FromDer, X509Certificate};

    #[test]
    fn a_chain_has_three_certificates_of_four_kilobytes_that_sign_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let leaf = store.rsa_chain(&["altway.test"]).unwrap();
        assert!(leaf.names.contains(&"altway.test".to_owned()));
        leaf.identity().unwrap();
        let chain = CertificateDer::pem_file_iter(&leaf.certificate).unwrap();
        let chain: Vec<_> = chain.collect::<Result<_, _>>().unwrap();
        let bytes: usize = chain.iter().map(|one| one.len()).sum();
        assert_eq!(chain.len(), 3);
        assert!((3_800..4_400).contains(&bytes), "{bytes}");
        for pair in chain.windows(2) {
            let (_, signed) = X509Certificate::from_der(&pair[0]).unwrap();
            let (_, signer) = X509Certificate::from_der(&pair[1]).unwrap();
            signed.verify_signature(Some(signer.public_key())).unwrap();
        }
        let root = CertificateDer::from_pem_file(store.rsa_root()).unwrap();
        assert_eq!(root, chain[2]);
    }
}
