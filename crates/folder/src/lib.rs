//! Folders that a server keeps: root follows no link there that another user has made, and files are whole or not there.
//!
//! A server may begin as root and go on as another user, whose the folder is, or may be root's in a folder of another's.
//! The owner of a folder can put anything into it, at any time: a path that is opened as it stands would have root read
//! any file, or write one anywhere.
//!
//! ```
//! use altway_folder::OpenFolder;
//!
//! let place = std::env::temp_dir().join(format!("altway-folder-{}", std::process::id()));
//! let folder = OpenFolder::make(&place, None)?;
//! folder.write("file.new", "file", b"whole")?;
//! let content = folder.read("file", 1024)?.expect("it was just written");
//! assert_eq!(content.bytes, b"whole");
//! # std::fs::remove_dir_all(&place)?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod open_folder;
mod path_walk;
mod read_file;

pub use open_folder::{Content, OpenFolder};
pub use path_walk::{Found, OpenLast, PathWalk, Trust, refused};
pub use read_file::{read_file, read_file_start, read_text_file};
