//! A transfer of which more than times is kept: the row of it, and the files that show its inside.

use crate::Sample;

/// A transfer that was made once more when a run had ended, with its files.
#[derive(Debug, Clone, PartialEq)]
pub struct Traced {
    /// The first row of the transfer in `traces/samples.csv`.
    pub sample: Sample,
    /// The files, in order, by their names within the run's folder: `traces/cell-1-h2/link.pcapng`.
    pub files: Vec<String>,
}

/// Content of a file of a traced transfer, by its name; `None` where altway writes none of that name.
#[must_use]
pub fn trace_content(file: &str) -> Option<&'static str> {
    let mut names = file.rsplit('/');
    let (own, folder) = (names.next()?, names.next());
    match (own, folder) {
        ("link.pcapng", _) => Some("every packet at both ends of the link, for Wireshark"),
        ("keys.log", _) => {
            Some("TLS secrets of the client, with which Wireshark reads the packets")
        }
        ("netlog.json", _) => Some("Chromium's log of its network, for its netlog viewer"),
        (_, Some("client-qlog")) => Some("qlog of the client's QUIC connection, for qvis"),
        (_, Some("server-qlog")) => Some("qlog of the server's QUIC connection, for qvis"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_by_its_name_and_a_qlog_by_its_folder() {
        let told = |file| trace_content(file).unwrap_or("nothing");
        assert!(told("traces/cell-1-h2/link.pcapng").starts_with("every packet"));
        assert!(told("traces/cell-1-h3/client-qlog/ab12.sqlog").contains("the client's QUIC"));
        assert!(told("server-qlog/ab12.sqlog").contains("the server's QUIC"));
        assert_eq!(trace_content("traces/cell-1-h2/notes.txt"), None);
        assert_eq!(trace_content(""), None);
    }
}
