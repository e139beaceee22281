//! Versions that each side names in the handshake (RFC 9368), where nobody on the way can change them:
//! a transport parameter with the version in use and those that would do.
//!
//! A client of ours names its own version alone, so no server answers it with another one (compatible
//! negotiation, RFC 9368 section 2.3). It never begins anew because of a Version Negotiation packet
//! either; what is left of the checks of section 4 is that both sides mean the version they use.

use crate::long_header::integer;
use crate::{Role, Version};

/// `version_information` (RFC 9368 section 3).
const ID: u8 = 0x11;

/// Reason for which a peer's parameter is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The parameter can't be read, which is TRANSPORT_PARAMETER_ERROR.
    Malformed,
    /// The parameter is about another version than the one in use: somebody changed what was sent,
    /// which is VERSION_NEGOTIATION_ERROR.
    OtherVersion,
}

/// Adds the parameter of this side to its encoded parameters.
pub(crate) fn append(parameters: &mut Vec<u8>, side: Role, version: Version) {
    let available = match side {
        Role::Client => &[version][..],
        Role::Server => &Version::ALL,
    };
    let versions = std::iter::once(&version).chain(available);
    let value: Vec<u8> = versions
        .flat_map(|version| version.number().to_be_bytes())
        .collect();
    let length = u8::try_from(value.len()).expect("a few versions of four bytes");
    parameters.extend_from_slice(&[ID, length]);
    parameters.extend_from_slice(&value);
}

/// Checks a peer's encoded parameters against the version of its packets. RFC 9368 section 4: "If the
/// Version Information was missing, the endpoints MAY complete the handshake."
///
/// # Errors
/// See [`Fault`].
pub(crate) fn check(parameters: &[u8], of: Role, version: Version) -> Result<(), Fault> {
    let Some(value) = find(parameters)? else {
        return Ok(());
    };
    let (versions, []) = value.as_chunks() else {
        return Err(Fault::Malformed);
    };
    let (chosen, available) = versions.split_first().ok_or(Fault::Malformed)?;
    // "If a server receives Version Information where the Chosen Version is not included in Available
    // Versions, it MUST treat it as a parsing failure."
    let is_incomplete = of == Role::Client && !available.contains(chosen);
    if is_incomplete || versions.contains(&[0; 4]) {
        return Err(Fault::Malformed);
    }
    match u32::from_be_bytes(*chosen) == version.number() {
        true => Ok(()),
        false => Err(Fault::OtherVersion),
    }
}

/// Returns true if the parameters of a server, as a client remembers them, are of a connection of this
/// version. A server that names no versions speaks version 1: every other one has to name them (RFC
/// 9369 section 4).
pub(crate) fn is_of(remembered: &[u8], version: Version) -> bool {
    match find(remembered) {
        Ok(Some(_)) => check(remembered, Role::Server, version).is_ok(),
        Ok(None) => version == Version::V1,
        Err(_) => false,
    }
}

/// The parameter's value.
fn find(mut parameters: &[u8]) -> Result<Option<&[u8]>, Fault> {
    let mut found = None;
    while !parameters.is_empty() {
        let (id, value, rest) = next(parameters).ok_or(Fault::Malformed)?;
        if id == u64::from(ID) && found.replace(value).is_some() {
            return Err(Fault::Malformed);
        }
        parameters = rest;
    }
    Ok(found)
}

fn next(parameters: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (id, rest) = integer(parameters)?;
    let (length, rest) = integer(rest)?;
    let (value, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    Some((id, value, rest))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const V1: [u8; 4] = [0, 0, 0, 1];
    const V2: [u8; 4] = [0x6b, 0x33, 0x43, 0xcf];
    const OTHER: [u8; 4] = [0x1a, 0x2a, 0x3a, 0x4a];

    /// Parameters with this value between two others.
    fn with(value: &[u8]) -> Vec<u8> {
        let length = u8::try_from(value.len()).unwrap();
        [&[0x01, 2, 0x40, 9][..], &[ID, length], value, &[0x0c, 0]].concat()
    }

    fn checked(value: &[u8], of: Role, version: Version) -> Result<(), Fault> {
        check(&with(value), of, version)
    }

    #[test]
    fn each_side_takes_what_the_other_one_says() {
        for version in Version::ALL {
            for side in [Role::Client, Role::Server] {
                let mut parameters = vec![0x01, 2, 0x40, 9];
                append(&mut parameters, side, version);
                assert_eq!(check(&parameters, side, version), Ok(()));
                assert!(is_of(&parameters, version));
                let other = Version::ALL.into_iter().find(|other| *other != version);
                let refused = check(&parameters, side, other.unwrap());
                assert_eq!(refused, Err(Fault::OtherVersion));
                assert!(!is_of(&parameters, other.unwrap()));
            }
        }
    }

    #[test]
    fn a_client_names_its_own_version_alone_and_a_server_all() {
        let said = |side| {
            let mut parameters = Vec::new();
            append(&mut parameters, side, Version::V2);
            parameters
        };
        assert_eq!(said(Role::Client), [&[ID, 8][..], &V2, &V2].concat());
        assert_eq!(said(Role::Server), [&[ID, 12][..], &V2, &V1, &V2].concat());
    }

    #[test]
    fn who_says_nothing_is_let_pass_and_remembered_as_version_1() {
        let silent = [0x01, 2, 0x40, 9];
        for version in Version::ALL {
            assert_eq!(check(&silent, Role::Server, version), Ok(()));
            assert_eq!(is_of(&silent, version), version == Version::V1);
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for value in [
            &[][..],
            &V1[..3],
            &[V1, V2].concat()[..7],
            &[0; 4],
            &[V1, [0; 4]].concat(),
        ] {
            for of in [Role::Client, Role::Server] {
                let refused = checked(value, of, Version::V1);
                assert_eq!(refused, Err(Fault::Malformed), "{value:?}");
            }
        }
        let twice = [with(&[V1, V1].concat()), with(&[V1, V1].concat())].concat();
        let refused = check(&twice, Role::Client, Version::V1);
        assert_eq!(refused, Err(Fault::Malformed));
    }

    #[test]
    fn a_client_must_and_a_server_need_not_name_what_it_chose_among_what_would_do() {
        for value in [&V1[..], &[V1, V2].concat()] {
            let refused = checked(value, Role::Client, Version::V1);
            assert_eq!(refused, Err(Fault::Malformed));
            assert_eq!(checked(value, Role::Server, Version::V1), Ok(()));
        }
    }

    #[test]
    fn versions_that_nobody_here_knows_may_be_named() {
        let value = [V2, OTHER, V2, V1].concat();
        for of in [Role::Client, Role::Server] {
            assert_eq!(checked(&value, of, Version::V2), Ok(()));
            assert_eq!(checked(&value, of, Version::V1), Err(Fault::OtherVersion));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_checked(parameters in vec(any::<u8>(), 0..60), begin: bool) {
            let parameters = if begin { [vec![ID], parameters].concat() } else { parameters };
            for version in Version::ALL {
                // Whatever comes of it.
                let _ = check(&parameters, Role::Client, version);
                let _ = is_of(&parameters, version);
            }
        }
    }
}
