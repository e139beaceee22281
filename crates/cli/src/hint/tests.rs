//! Tests of hints: each error has its own, whatever is said around it.

use super::*;
use std::path::PathBuf;

#[test]
fn a_hint_is_found_below_the_context() {
    let error = anyhow::Error::from(EmulateError::HostNeedsRoot).context("outer");
    assert!(of(&error).unwrap().contains("--server COMMAND"));
}

#[test]
fn a_socket_that_cannot_be_bound_has_a_hint_by_its_cause() {
    let hint = |port, kind: io::ErrorKind| {
        let error = ServeError::Listen {
            address: (std::net::Ipv4Addr::UNSPECIFIED, port).into(),
            transport: "TCP",
            source: kind.into(),
        };
        of(&error.into())
    };
    let privileged = hint(443, io::ErrorKind::PermissionDenied).unwrap();
    assert!(privileged.contains("CAP_NET_BIND_SERVICE"), "{privileged}");
    assert_eq!(hint(8443, io::ErrorKind::PermissionDenied), None);
    let elsewhere = hint(8443, io::ErrorKind::AddrNotAvailable).unwrap();
    assert!(elsewhere.contains("`ip address`"), "{elsewhere}");
}

#[test]
fn a_folder_for_certificates_that_cannot_be_written_to_has_a_hint() {
    for kind in [
        io::ErrorKind::PermissionDenied,
        io::ErrorKind::ReadOnlyFilesystem,
    ] {
        let error = ServeError::CertificateStore {
            action: "create",
            path: "/data".into(),
            source: kind.into(),
        };
        assert!(of(&error.into()).unwrap().contains("XDG_DATA_HOME"));
    }
}

#[test]
fn a_folder_that_may_not_be_entered_has_another_hint_than_one_that_is_missing() {
    let hint = |kind: io::ErrorKind| {
        let (path, source) = ("site".into(), kind.into());
        of(&ServeError::Root { path, source }.into()).unwrap()
    };
    assert!(hint(io::ErrorKind::PermissionDenied).contains("`namei -l DIR`"));
    assert!(hint(io::ErrorKind::NotFound).contains("`altway serve DIR`"));
}

#[test]
fn a_configuration_in_place_of_a_folder_is_named_with_its_option() {
    let path = PathBuf::from("altway.toml");
    let hint = of(&ServeError::RootNotDirectory { path }.into()).unwrap();
    assert!(
        hint.contains("`altway serve --config altway.toml`"),
        "{hint}"
    );
}

#[test]
fn a_full_disk_is_known_in_whatever_it_is_wrapped() {
    let source = io::Error::from(io::ErrorKind::StorageFull);
    let error = LabError::Folder {
        action: "write",
        path: PathBuf::from("x"),
        source,
    };
    assert_eq!(of(&error.into()), Some(disk_full()));
    assert_eq!(
        of(&io::Error::from(io::ErrorKind::StorageFull).into()),
        Some(disk_full())
    );
}

#[test]
fn a_lack_of_descriptors_is_named_with_its_limit() {
    let error = io::Error::from_raw_os_error(Errno::MFILE.raw_os_error());
    let hint = of(&error.into()).unwrap();
    assert!(hint.contains("`ulimit -n`"), "{hint}");
}

#[test]
fn a_limit_of_namespaces_is_no_full_disk() {
    let source = io::Error::from(io::ErrorKind::StorageFull);
    let error = EmulateError::UserNamespace {
        reason: "the limit",
        source,
    };
    assert!(of(&error.into()).unwrap().contains("altway doctor"));
}

#[test]
fn a_folder_that_is_closed_to_a_run_has_a_hint_on_another() {
    let hint_on = |action| {
        let error = LabError::Folder {
            action,
            path: "runs".into(),
            source: io::ErrorKind::PermissionDenied.into(),
        };
        of(&error.into()).unwrap()
    };
    assert!(hint_on("create").contains("--runs DIR"));
    assert!(hint_on("write").contains("a copy of the folder"));
}

#[test]
fn a_name_without_an_address_has_a_hint() {
    let error = LoadError::Resolve {
        host: "nowhere.example".into(),
        source: io::Error::from(io::ErrorKind::NotFound),
    };
    assert!(of(&error.into()).unwrap().contains("address"));
}

#[test]
fn an_unknown_error_has_no_hint() {
    assert_eq!(of(&anyhow::anyhow!("who knows")), None);
}

#[test]
fn a_damaged_state_folder_has_a_hint() {
    let error = ServeError::State {
        path: PathBuf::from("state"),
        source: io::ErrorKind::InvalidData.into(),
    };
    assert!(of(&error.into()).unwrap().contains("from a backup"));
}

#[test]
fn a_certificate_of_an_old_version_has_the_same_hint_whoever_shows_it() {
    let path = PathBuf::from("old.pem");
    let server = ServeError::CertificateVersion {
        path: path.clone(),
        version: 1,
    };
    let client = SiteError::Upstream(UpstreamError::ClientCertificateVersion { path });
    for error in [server.into(), client.into()] {
        assert_eq!(of(&error).as_deref(), Some(CERTIFICATE_VERSION));
        assert_eq!(
            of_configuration(&error).as_deref(),
            Some(CERTIFICATE_VERSION)
        );
    }
}
