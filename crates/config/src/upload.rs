//! Uploads: what a route with `upload` takes from clients, and where it is stored.

use altway_document::words;
use altway_units::{DataSize, LeastRate};
use std::path::PathBuf;
use std::time::Duration;

/// The most files and fields of a form that can be permitted.
pub const MAX_UPLOAD_PARTS: u64 = 1_000;

/// The most uploads at the same time that can be permitted for a route.
pub const MAX_CONCURRENT_UPLOADS: u64 = 10_000;

/// Files of clients that are stored in a folder: `upload`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// The folder. What `*` of the route stands for is the path below it; folders in that path must be there.
    pub folder: PathBuf,
    /// The methods by which files are taken, each once.
    pub methods: Vec<UploadMethod>,
    /// The longest content of a request.
    pub body: DataSize,
    /// The most parts of a form, files and other fields together.
    pub parts: u32,
    /// True if a file that is there is replaced; otherwise the answer is 409.
    pub replace: bool,
    /// Free space that is left on the file system; an upload that would take of it is answered 507.
    pub min_free: DataSize,
    /// The slowest client that is waited for.
    pub slowest: LeastRate,
    /// The most uploads that this route takes at the same time; what comes on top is answered 503.
    pub concurrent: u32,
    /// True if uploads can be resumed (draft-ietf-httpbis-resumable-upload).
    pub resumable: bool,
}

impl Upload {
    /// Uploads into a folder, with the default of every other key.
    #[must_use]
    pub fn into_folder(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            methods: vec![UploadMethod::Put, UploadMethod::Post],
            body: DataSize::from_bytes(100_000_000),
            parts: 32,
            replace: false,
            min_free: DataSize::from_bytes(100_000_000),
            slowest: LeastRate::new(DataSize::from_bytes(1_000), Duration::from_secs(30))
                .expect("a kilobyte in a second is a byte or more"),
            concurrent: 64,
            resumable: false,
        }
    }
}

words! {
    /// A method by which files are uploaded.
    UploadMethod, "a method of uploads" {
        /// The content is the file, and the path is its name (RFC 9110 section 9.3.4).
        Put = "PUT",
        /// The content is a form with files (RFC 7578).
        Post = "POST",
    }
}
