//! How `altway serve` serves the files of its folder.

use altway_serve::{ContentCoding, FilesOptions, HeaderRule, InvalidFilesOptions};
use altway_units::DataSize;

/// Every field of [`FilesOptions`] but `hidden`.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Files")]
pub(super) struct ServedFiles {
    /// Name of the file that a folder is answered with; given again, the next to be tried
    /// (default: index.html).
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    index: Vec<String>,
    /// File of DIR that is answered with 200 where nothing is found: for applications that read the path
    /// themselves. What browsers mark as no navigation (Sec-Fetch-Mode) is answered 404 all the same.
    #[arg(long, value_name = "FILE")]
    fallback: Option<String>,
    /// Answer /about with about.html, and redirect /about.html there.
    #[arg(long)]
    clean_urls: bool,
    /// Show what is in folders without an index: a page, or JSON for those that ask for it.
    #[arg(long)]
    listing: bool,
    /// Send compressed files that lie beside others, as app.js.br beside app.js, to clients that take them:
    /// which codings, where not all.
    #[arg(
        long,
        value_name = "CODINGS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "zstd,br,gzip",
        value_delimiter = ','
    )]
    precompressed: Vec<ContentCoding>,
    /// Compress text of 256 bytes to 4 MiB by br or gzip when it is first asked for, and keep it (16 MiB).
    #[arg(long)]
    compress: bool,
    /// Cache-Control of files: /a/file, /folder/* or *.ext, and its value. The last that fits counts.
    #[arg(long, value_name = "PATTERN=VALUE", value_parser = cache)]
    cache: Vec<HeaderRule>,
    /// A field of every response of the folder, or with PATTERN= before it of files (see --cache).
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<HeaderRule>,
    /// File of DIR that a status from 400 on is answered with (default: 404=404.html, if it is there).
    #[arg(long, value_name = "STATUS=FILE", value_parser = error_page, hide_short_help = true)]
    error_page: Vec<(u16, String)>,
}

impl ServedFiles {
    /// # Errors
    /// They name what can't be a file of the folder.
    pub(super) fn options(&self, hidden: bool) -> Result<FilesOptions, InvalidFilesOptions> {
        let mut options = FilesOptions::default();
        if !self.index.is_empty() {
            options.index.clone_from(&self.index);
        }
        options.hidden = hidden;
        options.fallback.clone_from(&self.fallback);
        options.clean_urls = self.clean_urls;
        options.listing = self.listing;
        options.precompressed.clone_from(&self.precompressed);
        options.compress = self.compress;
        options.headers = [&*self.cache, &*self.header].concat();
        // The first that is given for a status counts.
        let defaults = std::mem::take(&mut options.error_pages);
        options.error_pages = [&*self.error_page, &*defaults].concat();
        options.check()?;
        Ok(options)
    }

    /// Memory that they take beside the limits.
    pub(super) fn memory(&self) -> DataSize {
        DataSize::from_bytes(match self.compress {
            true => FilesOptions::COMPRESSED_BYTES,
            false => 0,
        })
    }
}

fn cache(text: &str) -> Result<HeaderRule, String> {
    let (pattern, value) = text
        .split_once('=')
        .ok_or("expected PATTERN=VALUE, as /assets/*=max-age=86400")?;
    HeaderRule::cache_control(pattern, value).map_err(|error| error.to_string())
}

fn header(text: &str) -> Result<HeaderRule, String> {
    const EXPECTED: &str =
        "expected NAME: VALUE or PATTERN=NAME: VALUE, as *.js=X-Robots-Tag: noindex";
    let (pattern, field) = match text.starts_with(['/', '*']) {
        true => text
            .split_once('=')
            .map(|(pattern, field)| (Some(pattern), field)),
        false => Some((None, text)),
    }
    .ok_or(EXPECTED)?;
    let (name, value) = field.split_once(':').ok_or(EXPECTED)?;
    let rule = match pattern {
        Some(pattern) => HeaderRule::new(pattern, name.trim(), value),
        None => HeaderRule::always(name.trim(), value),
    };
    rule.map_err(|error| error.to_string())
}

fn error_page(text: &str) -> Result<(u16, String), String> {
    let given = text.split_once('=');
    let given = given.and_then(|(status, file)| Some((status.parse().ok()?, file.to_owned())));
    given.ok_or_else(|| "expected STATUS=FILE, as 404=errors/404.html".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Serve {
        #[command(flatten)]
        files: ServedFiles,
        #[arg()]
        root: Option<String>,
    }

    fn options(line: &[&str]) -> Result<FilesOptions, String> {
        let line = ["serve"].iter().chain(line);
        let parsed = Serve::try_parse_from(line).map_err(|error| error.to_string())?;
        let options = parsed.files.options(false);
        options.map_err(|error| error.to_string())
    }

    #[test]
    fn without_flags_the_options_are_the_defaults() {
        let shown = format!("{:?}", options(&[]).unwrap());
        assert_eq!(shown, format!("{:?}", FilesOptions::default()));
    }

    #[test]
    fn each_flag_sets_its_option() {
        let options = options(&[
            "--index=a.html",
            "--index=b.html",
            "--fallback=app.html",
            "--clean-urls",
            "--listing",
            "--precompressed",
            "--compress",
            "--cache=/assets/*=max-age=9, immutable",
            "--header=X-A: b: c",
            "--header=*.js=X-B:d",
            "--error-page=404=errors/404.html",
            "site",
        ])
        .unwrap();
        assert_eq!(options.index, ["a.html", "b.html"]);
        assert_eq!(options.fallback.as_deref(), Some("app.html"));
        assert!(options.clean_urls && options.listing && options.compress);
        assert_eq!(options.precompressed.len(), 3);
        let rules = [
            HeaderRule::cache_control("/assets/*", "max-age=9, immutable"),
            HeaderRule::always("x-a", "b: c"),
            HeaderRule::new("*.js", "x-b", "d"),
        ];
        assert_eq!(options.headers, rules.map(Result::unwrap));
        let page = (404, "errors/404.html".to_owned());
        assert_eq!(options.error_pages[0], page);
    }

    #[test]
    fn codings_can_be_chosen_and_the_folder_is_none() {
        let some = options(&["--precompressed=br,gzip"]).unwrap();
        assert_eq!(
            some.precompressed,
            [ContentCoding::Brotli, ContentCoding::Gzip]
        );
        assert_eq!(
            options(&["--precompressed", "site"])
                .unwrap()
                .precompressed
                .len(),
            3
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (flag, part) in [
            ("--cache=/assets/*", "expected PATTERN=VALUE"),
            (
                "--cache=assets=max-age=9",
                "`assets` is no pattern of paths",
            ),
            ("--header=X-A", "expected NAME: VALUE"),
            (
                "--header=Content-Length: 3",
                "content-length is the server's own",
            ),
            ("--precompressed=deflate", "`deflate` is no content coding"),
            ("--error-page=404", "expected STATUS=FILE"),
            ("--error-page=200=a", "status 200 has no error page"),
            ("--index=a/b", "`a/b` is no name of an index"),
            ("--fallback=../a", "`../a` is no file beneath"),
        ] {
            let error = options(&[flag]).unwrap_err();
            assert!(error.contains(part), "{flag}: {error}");
        }
    }
}
