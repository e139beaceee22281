//! Names under which files of clients are stored.

/// The longest name of a file, in bytes of UTF-8: what Linux's file systems can hold.
const MAX_LENGTH: usize = 255;

/// Names that stand for devices on Windows, with any ending too.
const DEVICES: [&str; 4] = ["CON", "PRN", "AUX", "NUL"];

/// Devices of Windows that have a number from 0 to 9 behind their name.
const NUMBERED_DEVICES: [&str; 2] = ["COM", "LPT"];

/// Reason why a name can't be one of a stored file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadName {
    #[error("a name is empty")]
    Empty,
    #[error("a name is longer than {MAX_LENGTH} bytes")]
    Long,
    #[error("a name begins with a dot")]
    Dot,
    #[error("a name begins or ends with a space, or ends with a dot")]
    Edge,
    #[error("a name has a slash, a backslash, or a character that is not shown")]
    Character,
    #[error("a name is that of a device on Windows")]
    Device,
}

/// Takes the name of a file from what a client calls it: some send the path that it has on their side, whose folders
/// are left out.
///
/// # Errors
/// The remaining name is none that a file can be stored under.
pub(crate) fn without_folders(sent: &str) -> Result<&str, BadName> {
    let name = sent.rsplit(['/', '\\']).next().unwrap_or_default();
    check(name).map(|()| name)
}

/// Checks that a file, or a folder on the way to it, can have the name: it means one file wherever the folder is
/// shared, is shown as it is, and is no hidden file.
///
/// # Errors
/// The name is not allowed.
pub(crate) fn check(name: &str) -> Result<(), BadName> {
    if name.is_empty() {
        return Err(BadName::Empty);
    }
    if name.len() > MAX_LENGTH {
        return Err(BadName::Long);
    }
    if name.starts_with('.') {
        return Err(BadName::Dot);
    }
    if name.starts_with(' ') || name.ends_with([' ', '.']) {
        return Err(BadName::Edge);
    }
    if name.chars().any(is_refused) {
        return Err(BadName::Character);
    }
    if is_device(name) {
        return Err(BadName::Device);
    }
    Ok(())
}

fn is_refused(character: char) -> bool {
    // Marks of direction have "exe.jpg" read as "gpj.exe".
    let is_mark = matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    matches!(character, '/' | '\\') || character.is_control() || is_mark
}

fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end();
    let stem = stem.to_ascii_uppercase();
    let is_numbered = |device| {
        let number = stem.strip_prefix(device);
        number.is_some_and(|it: &str| it.len() == 1 && it.as_bytes()[0].is_ascii_digit())
    };
    DEVICES.contains(&&*stem) || NUMBERED_DEVICES.into_iter().any(is_numbered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn folders_are_left_out_of_names() {
        for (sent, name) in [
            ("photo.jpg", "photo.jpg"),
            ("../../etc/passwd", "passwd"),
            ("/etc/passwd", "passwd"),
            ("C:\\Users\\me\\photo.jpg", "photo.jpg"),
            ("a/b\\c", "c"),
            ("été 2026.txt", "été 2026.txt"),
            ("日本語.txt", "日本語.txt"),
            ("con_man.txt", "con_man.txt"),
            ("com10", "com10"),
            ("What? <no>.txt", "What? <no>.txt"),
            (&"x".repeat(255), &"x".repeat(255)),
        ] {
            assert_eq!(without_folders(sent), Ok(name));
        }
    }

    #[test]
    fn names_that_mean_something_else_are_refused() {
        for (sent, reason) in [
            ("", BadName::Empty),
            ("a/", BadName::Empty),
            ("..", BadName::Dot),
            ("a/..", BadName::Dot),
            (".", BadName::Dot),
            (".htaccess", BadName::Dot),
            ("..\\..", BadName::Dot),
            (" a", BadName::Edge),
            ("a ", BadName::Edge),
            ("a.", BadName::Edge),
            ("a\0.txt", BadName::Character),
            ("a\r\nb", BadName::Character),
            ("a\u{7f}", BadName::Character),
            ("a\u{85}", BadName::Character),
            ("a\u{202e}gpj.exe", BadName::Character),
            ("NUL", BadName::Device),
            ("con.txt", BadName::Device),
            ("aux .tar.gz", BadName::Device),
            ("Com1.log", BadName::Device),
            (&"x".repeat(256), BadName::Long),
            (&"é".repeat(128), BadName::Long),
        ] {
            assert_eq!(without_folders(sent), Err(reason), "{sent:?}");
        }
    }

    proptest! {
        #[test]
        fn a_name_that_is_taken_is_one_segment_of_a_path(sent: String) {
            if let Ok(name) = without_folders(&sent) {
                prop_assert!(sent.ends_with(name));
                prop_assert_eq!(std::path::Path::new(name).components().count(), 1);
                prop_assert!(!name.contains('\0') && !name.starts_with('.') && name.len() <= 255);
                prop_assert_eq!(without_folders(name), Ok(name));
            }
        }
    }
}
