//! The store on real directories.

use super::*;
use std::os::unix::fs::PermissionsExt;

struct Fixture {
    dir: tempfile::TempDir,
    store: Store,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("certs")).unwrap();
        Self { dir, store }
    }

    fn reopen(&self) -> Result<Store, Error> {
        Store::open(self.dir.path().join("certs"))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.store.dir().join(name)
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.file(name)).unwrap().permissions().mode() & 0o777
    }

    /// Signs a leaf by this store's authority that has `left` to live.
    fn age_leaf(&self, left: Duration) {
        let key = KeyPair::generate().unwrap();
        let mut params = leaf_params(&Names::new::<&str>(&[]).unwrap()).unwrap();
        params.not_after = OffsetDateTime::now_utc() + left;
        let pem = read(&self.store.authority()).unwrap();
        let issuer = Issuer::from_ca_cert_pem(&pem, self.store.authority_key().unwrap()).unwrap();
        let made = params.signed_by(&key, &issuer).unwrap();
        replace(&self.file(LEAF_KEY), &key.serialize_pem()).unwrap();
        replace(&self.file(LEAF), &made.pem()).unwrap();
    }
}

const NONE: [&str; 0] = [];

#[test]
fn keys_are_for_their_owner_alone() {
    let fixture = Fixture::new();
    fixture.store.leaf(&NONE).unwrap();
    assert_eq!(fixture.mode(""), 0o700);
    assert_eq!(fixture.mode(AUTHORITY_KEY), 0o600);
    assert_eq!(fixture.mode(LEAF_KEY), 0o600);
}

#[test]
fn a_leaf_is_made_once_and_then_reused() {
    let fixture = Fixture::new();
    let first = fixture.store.leaf(&NONE).unwrap();
    let second = fixture.reopen().unwrap().leaf(&["localhost"]).unwrap();
    assert!(first.is_new && !second.is_new);
    assert_eq!(first.spki_sha256, second.spki_sha256);
    assert_eq!(first.names, ["127.0.0.1", "::1", "localhost"]);
    first.identity().unwrap();
}

#[test]
fn a_leaf_is_not_warned_of_up_to_its_renewal() {
    let fixture = Fixture::new();
    let leaf = fixture.store.leaf(&NONE).unwrap();
    let identity = leaf.identity().unwrap();
    let renewal = OffsetDateTime::from(leaf.not_after) - RENEWAL;
    for when in [OffsetDateTime::now_utc(), renewal] {
        assert_eq!(identity.warnings(when.into()), [], "{when}");
    }
}

#[test]
fn a_leaf_lives_at_most_397_days() {
    let leaf = Fixture::new().store.leaf(&NONE).unwrap();
    let life = OffsetDateTime::from(leaf.not_after) - OffsetDateTime::now_utc() + BACKDATED;
    assert!(
        life <= Duration::days(397) && life > Duration::days(395),
        "{life}"
    );
}

#[test]
fn a_new_name_makes_a_new_leaf_that_keeps_the_former_names() {
    let fixture = Fixture::new();
    fixture.store.leaf(&["a.test"]).unwrap();
    let leaf = fixture.store.leaf(&["*.b.test"]).unwrap();
    assert!(leaf.is_new);
    for name in ["a.test", "*.b.test", "localhost"] {
        assert!(leaf.names.iter().any(|has| has == name), "{name}");
    }
    assert!(!fixture.store.leaf(&NONE).unwrap().is_new);
}

#[test]
fn a_leaf_is_renewed_when_less_than_thirty_days_are_left() {
    let fixture = Fixture::new();
    fixture.age_leaf(RENEWAL + Duration::minutes(1));
    assert!(!fixture.store.leaf(&NONE).unwrap().is_new);
    fixture.age_leaf(RENEWAL - Duration::minutes(1));
    assert!(fixture.store.leaf(&NONE).unwrap().is_new);
}

#[test]
fn a_leaf_of_another_authority_or_with_another_key_is_replaced() {
    let fixture = Fixture::new();
    fixture.store.leaf(&NONE).unwrap();
    let other = Fixture::new();
    other.store.leaf(&NONE).unwrap();
    fs::copy(other.file(LEAF_KEY), fixture.file(LEAF_KEY)).unwrap();
    assert!(fixture.store.leaf(&NONE).unwrap().is_new, "another key");
    fs::copy(other.file(LEAF_KEY), fixture.file(LEAF_KEY)).unwrap();
    fs::copy(other.file(LEAF), fixture.file(LEAF)).unwrap();
    assert!(
        fixture.store.leaf(&NONE).unwrap().is_new,
        "another authority"
    );
}

#[test]
fn the_authority_is_never_overwritten() {
    let fixture = Fixture::new();
    let before = fs::read(fixture.store.authority()).unwrap();
    fixture.reopen().unwrap().leaf(&["a.test"]).unwrap();
    assert_eq!(fs::read(fixture.store.authority()).unwrap(), before);
    write_once(&fixture.store.authority(), "other").unwrap();
    assert_eq!(fs::read(fixture.store.authority()).unwrap(), before);
}

#[test]
fn an_authority_without_its_key_is_an_error() {
    let fixture = Fixture::new();
    fs::remove_file(fixture.file(AUTHORITY_KEY)).unwrap();
    let error = fixture.reopen().unwrap_err();
    assert!(
        matches!(error, Error::AuthorityKeyMissing { .. }),
        "{error}"
    );
}

#[test]
fn an_interrupted_beginning_is_finished_with_the_same_key() {
    let fixture = Fixture::new();
    let key = fs::read(fixture.file(AUTHORITY_KEY)).unwrap();
    fs::remove_file(fixture.store.authority()).unwrap();
    fixture.reopen().unwrap().leaf(&NONE).unwrap();
    assert_eq!(fs::read(fixture.file(AUTHORITY_KEY)).unwrap(), key);
}

#[test]
fn a_damaged_leaf_is_replaced_and_a_damaged_authority_reported() {
    let fixture = Fixture::new();
    fs::write(fixture.file(LEAF), "no PEM").unwrap();
    assert!(fixture.store.leaf(&NONE).unwrap().is_new);
    fs::write(fixture.store.authority(), "no PEM").unwrap();
    let error = fixture.store.leaf(&["a.test"]).unwrap_err();
    assert!(matches!(error, Error::CertificateDamaged { .. }), "{error}");
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = Store::open(file.path().join("certs")).unwrap_err();
    assert!(error.to_string().starts_with("cannot create `"), "{error}");
}

#[test]
fn the_user_s_data_lies_where_the_variables_say() {
    let check = |xdg: Option<&str>, home: Option<&str>, expect: Option<&str>| {
        let found = data_dir(|name| match name {
            "XDG_DATA_HOME" => xdg.map(Into::into),
            _ => home.map(Into::into),
        });
        assert_eq!(found, expect.map(PathBuf::from), "{xdg:?} {home:?}");
    };
    check(Some("/data"), Some("/home/a"), Some("/data"));
    check(None, Some("/home/a"), Some("/home/a/.local/share"));
    check(Some("data"), Some("/home/a"), Some("/home/a/.local/share"));
    check(Some(""), None, None);
    check(None, None, None);
}
