//! Changes to a browser's profile, in which it keeps what it knows of a server from one start to the next: the
//! entries of `Alt-Svc` grow older by the time that passes between two sessions.
//!
//! A browser can't be told what time it is, so the time that passes is taken from the dates at which its entries run
//! out. Nothing else in the profile is touched, but Chromium's cache, which would answer in the server's place.

use altway_record::Client;
use serde_json::Value;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Chromium's file of what it knows of servers.
const CHROMIUM: &str = "Default/Network Persistent State";

/// Chromium's caches of responses.
const CACHES: [&str; 2] = ["Default/Cache", "Default/Code Cache"];

/// Firefox's file of alternative services.
const FIREFOX: &str = "AlternateServices.bin";

/// The most that is read of either file.
const FILE_LIMIT: u64 = 16 << 20;

/// Ages the profile of a browser that does not run by `time`. One without entries stays as it is.
///
/// # Errors
/// The file of its entries can't be read or written, or is of a form that is not known.
pub(super) fn age(browser: Client, profile: &Path, time: Duration) -> io::Result<()> {
    let file = profile.join(match browser {
        Client::Firefox => FIREFOX,
        _ => CHROMIUM,
    });
    let Some(before) = read(&file)? else {
        return Ok(());
    };
    let after = match browser {
        Client::Firefox => age_firefox(&before, time),
        _ => age_chromium(&before, time),
    };
    let after = after.ok_or_else(|| {
        io::Error::other("it keeps what it knows of servers in a form that is not known here")
    })?;
    fs::write(file, after)
}

/// Removes the responses that a profile holds.
///
/// # Errors
/// They can't be removed.
pub(super) fn forget_responses(profile: &Path) -> io::Result<()> {
    for cache in CACHES {
        match fs::remove_dir_all(profile.join(cache)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn read(file: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
        Ok(found) if found.len() > FILE_LIMIT => {
            Err(io::Error::other("it knows of more servers than can be"))
        }
        Ok(_) => fs::read(file).map(Some),
    }
}

/// JSON: `expiration` of each entry in microseconds since 1601, and `broken_until` of what failed in seconds; both
/// are texts.
fn age_chromium(text: &[u8], time: Duration) -> Option<Vec<u8>> {
    let mut state: Value = serde_json::from_slice(text).ok()?;
    let Some(properties) = state.pointer_mut("/net/http_server_properties") else {
        return Some(text.to_vec());
    };
    let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    for server in elements(properties, "servers") {
        for entry in elements(server, "alternative_service") {
            take(entry.get_mut("expiration")?, micros)?;
        }
    }
    for service in elements(properties, "broken_alternative_services") {
        if let Some(until) = service.get_mut("broken_until") {
            take(until, seconds)?;
        }
    }
    serde_json::to_vec(&state).ok()
}

/// The elements of the array at `key`; none where there is no array.
fn elements<'a>(object: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    let array = object.get_mut(key).and_then(Value::as_array_mut);
    array.into_iter().flatten()
}

/// Takes `amount` from a number that is a text.
fn take(number: &mut Value, amount: i64) -> Option<()> {
    let before: i64 = number.as_str()?.parse().ok()?;
    *number = before.saturating_sub(amount).to_string().into();
    Some(())
}

/// Slots of a checksum, a score, a day, a key and a value; the checksum is the exclusive or of all other 16-bit
/// numbers, most significant byte first.
fn age_firefox(slots: &[u8], time: Duration) -> Option<Vec<u8>> {
    const KEY: usize = 6;
    const VALUE: usize = KEY + 256;
    const SLOT: usize = VALUE + 1024;
    if !slots.len().is_multiple_of(SLOT) {
        return None;
    }
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let mut aged = slots.to_vec();
    for slot in aged.chunks_exact_mut(SLOT) {
        if checksum(&slot[2..]) != u16::from_be_bytes([slot[0], slot[1]]) {
            return None;
        }
        let value = &slot[VALUE..];
        let length = value.iter().position(|byte| *byte == 0)?;
        let Some(value) = age_mapping(std::str::from_utf8(&value[..length]).ok()?, seconds) else {
            continue;
        };
        let room = &mut slot[VALUE..];
        room.fill(0);
        room.get_mut(..value.len())?
            .copy_from_slice(value.as_bytes());
        let sum = checksum(&slot[2..]).to_be_bytes();
        slot[..2].copy_from_slice(&sum);
    }
    Some(aged)
}

fn checksum(bytes: &[u8]) -> u16 {
    let numbers = bytes
        .chunks_exact(2)
        .map(|two| u16::from_be_bytes([two[0], two[1]]));
    numbers.fold(0, |sum, number| sum ^ number)
}

/// A mapping in text has its end, in seconds since 1970, before the name of the protocol; `None` of other values.
fn age_mapping(mapping: &str, seconds: i64) -> Option<String> {
    let mut parts: Vec<String> = mapping.split(':').map(str::to_owned).collect();
    let end = parts.iter().position(|part| part == "h3")?.checked_sub(1)?;
    let before: i64 = parts[end].parse().ok()?;
    parts[end] = before.saturating_sub(seconds).max(0).to_string();
    Some(parts.join(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn chromium_s_entries_grow_older_and_nothing_else() {
        let text = r#"{"net":{"http_server_properties":{"servers":[{"alternative_service":[{"advertised_alpns":["h3"],"expiration":"13442662093004726","port":8443,"protocol_str":"quic"}],"server":"https://altway.test:8443","supports_spdy":true},{"server":"https://b.test"}],"broken_alternative_services":[{"broken_count":1,"broken_until":"1795600000","host":"b.test"},{"broken_count":2}],"version":5}}}"#;
        let aged = age_chromium(text.as_bytes(), HOUR).unwrap();
        let expected = text
            .replace("13442662093004726", "13442658493004726")
            .replace("1795600000", "1795596400");
        let (aged, expected): (Value, Value) = (
            serde_json::from_slice(&aged).unwrap(),
            serde_json::from_str(&expected).unwrap(),
        );
        assert_eq!(aged, expected);
    }

    #[test]
    fn a_form_that_is_not_known_is_an_error() {
        let number = br#"{"net":{"http_server_properties":{"servers":[{"alternative_service":[{"expiration":13}]}]}}}"#;
        assert_eq!(age_chromium(number, HOUR), None);
        assert_eq!(age_chromium(b"no JSON", HOUR), None);
        assert_eq!(age_firefox(&[1; 100], HOUR), None);
        assert_eq!(age_firefox(&[1; 1286], HOUR), None, "the checksum");
        let nothing = br#"{"net":{}}"#;
        assert_eq!(age_chromium(nothing, HOUR).unwrap(), nothing);
    }

    fn slot(key: &str, value: &str) -> Vec<u8> {
        let mut slot = vec![0; 1286];
        slot[3..6].copy_from_slice(&[1, 0x51, 0x2e]);
        slot[6..6 + key.len()].copy_from_slice(key.as_bytes());
        slot[262..262 + value.len()].copy_from_slice(value.as_bytes());
        let sum = checksum(&slot[2..]).to_be_bytes();
        slot[..2].copy_from_slice(&sum);
        slot
    }

    #[test]
    fn firefox_s_entries_grow_older_under_a_checksum_that_holds() {
        let mapping = "https:127.0.0.1:18444:127.0.0.1:18444::n:1798188440:h3:y:1795596439:n:^partitionKey=%28https%2C127.0.0.1%29:|n:y:";
        let other = slot("Q.https:127.0.0.1:18444:.:", "3");
        let slots = [other.clone(), slot("https:a", mapping)].concat();
        let expected = slot("https:a", &mapping.replace("1798188440", "1798184840"));
        assert_eq!(
            age_firefox(&slots, HOUR).unwrap(),
            [other, expected].concat()
        );
        assert!(age_firefox(&[], HOUR).unwrap().is_empty());
    }

    #[test]
    fn a_browser_that_has_kept_nothing_is_left_as_it_is() {
        let profile = tempfile::tempdir().unwrap();
        fs::create_dir_all(profile.path().join("Default/Cache/Cache_Data")).unwrap();
        for browser in [Client::Chromium, Client::Firefox] {
            age(browser, profile.path(), HOUR).unwrap();
        }
        assert!(profile.path().join("Default/Cache").exists());
        forget_responses(profile.path()).unwrap();
        forget_responses(profile.path()).unwrap();
        assert!(!profile.path().join("Default/Cache").exists());
    }
}
