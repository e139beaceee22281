//! The files of `altway serve`'s folder: the options for what a `files` route says.

use altway_config::{
    BadUrlPath, CacheRule, Coding, ErrorPage, Files, HeaderField, OnTheFly, UrlPath,
};
use std::path::Path;

/// Every key of a `files` route but `hidden`.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Files")]
pub(super) struct ServedFiles {
    /// Name of the file that a folder is answered with; may be given several times, in the order in which they are
    /// tried [default: index.html].
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    index: Vec<String>,
    /// File of DIR that is answered with 200 where nothing is found: for applications that read the path themselves.
    /// Requests that are no navigation by the browser's Sec-Fetch-Mode are answered 404 all the same.
    #[arg(long, value_name = "FILE", value_parser = page)]
    fallback: Option<UrlPath>,
    /// Answer /about with about.html, and redirect /about.html there.
    #[arg(long)]
    clean_urls: bool,
    /// List what is in folders without an index: as a page, or as JSON for clients that ask for it.
    #[arg(long)]
    listing: bool,
    /// Send compressed files that are there beside others, as app.js.br beside app.js, to clients that accept them.
    /// CODINGS are br, zstd and gzip, with commas, the best first; without a value: all, in this order.
    #[arg(
        long,
        value_name = "CODINGS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "br,zstd,gzip",
        value_delimiter = ','
    )]
    precompressed: Vec<Coding>,
    /// Compress text of 256 bytes to 4 MiB when it is first asked for, and keep the result (16 MiB). CODINGS are br,
    /// gzip and zstd, with commas, the best first; without a value: br and gzip. zstd needs a build with the feature of
    /// that name.
    #[arg(
        long,
        value_name = "CODINGS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "br,gzip",
        value_delimiter = ','
    )]
    compress: Vec<OnTheFly>,
    /// Cache-Control of files: /a/file, /folder/* or *.ext, and its value, as in '/assets/*=max-age=86400'; may be
    /// given several times, the first that matches counts.
    #[arg(long, value_name = "PATTERN=VALUE", value_parser = cache)]
    cache: Vec<CacheRule>,
    /// A field of every response, as in 'X-Frame-Options: DENY'; may be given several times.
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<HeaderField>,
    /// File of DIR that is the content of responses with this status, 400 or above; may be given several times
    /// [default: 404=404.html, if it is there].
    #[arg(long, value_name = "STATUS=FILE", value_parser = error_page, hide_short_help = true)]
    error_page: Vec<ErrorPage>,
}

impl ServedFiles {
    /// The files of `root` as a route of a configuration says them.
    pub(super) fn config(&self, root: &Path, hidden: bool) -> Files {
        let mut files = Files::of(root);
        if !self.index.is_empty() {
            files.index.clone_from(&self.index);
        }
        files.hidden = hidden;
        files.fallback.clone_from(&self.fallback);
        files.clean_urls = self.clean_urls;
        files.listing = self.listing;
        files.precompressed.clone_from(&self.precompressed);
        files.compress.clone_from(&self.compress);
        files.cache.clone_from(&self.cache);
        files.error_pages.clone_from(&self.error_page);
        files
    }

    /// The fields of every response.
    pub(super) fn headers(&self) -> &[HeaderField] {
        &self.header
    }
}

/// A file of the folder, with its slash in front or without.
fn page(text: &str) -> Result<UrlPath, BadUrlPath> {
    match text.starts_with('/') {
        true => text.parse(),
        false => format!("/{text}").parse(),
    }
}

fn cache(text: &str) -> Result<CacheRule, String> {
    let (pattern, value) = text
        .split_once('=')
        .ok_or("expected PATTERN=VALUE, as /assets/*=max-age=86400")?;
    let path = pattern.parse().map_err(error_text)?;
    // What can't be the value of this field can't be that of any.
    HeaderField::new("cache-control", value).map_err(error_text)?;
    Ok(CacheRule {
        path,
        value: value.into(),
    })
}

fn header(text: &str) -> Result<HeaderField, String> {
    let (name, value) = text.split_once(':').ok_or("expected NAME: VALUE")?;
    HeaderField::new(name.trim(), value.trim()).map_err(error_text)
}

fn error_page(text: &str) -> Result<ErrorPage, String> {
    let (status, file) = text
        .split_once('=')
        .and_then(|(status, file)| Some((status.parse::<u16>().ok()?, file)))
        .ok_or("expected STATUS=FILE, as 404=errors/404.html")?;
    if !(400..=599).contains(&status) {
        return Err(format!(
            "status {status} has no error page: expected one from 400 to 599"
        ));
    }
    let page = page(file).map_err(error_text)?;
    Ok(ErrorPage { status, page })
}

fn error_text(error: impl std::error::Error) -> String {
    error.to_string()
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

    fn parsed(line: &[&str]) -> Result<ServedFiles, String> {
        let line = ["serve"].iter().chain(line);
        let parsed = Serve::try_parse_from(line).map_err(|error| error.to_string())?;
        Ok(parsed.files)
    }

    fn files(line: &[&str]) -> Result<Files, String> {
        Ok(parsed(line)?.config(Path::new("site"), false))
    }

    #[test]
    fn without_flags_files_are_the_default() {
        assert_eq!(files(&[]).unwrap(), Files::of("site"));
    }

    #[test]
    fn each_flag_sets_its_key() {
        let line = [
            "--index=a.html",
            "--index=b.html",
            "--fallback=app.html",
            "--clean-urls",
            "--listing",
            "--precompressed",
            "--compress",
            "--cache=/assets/*=max-age=9, immutable",
            "--header=X-A: b: c",
            "--error-page=404=errors/404.html",
            "site",
        ];
        let given = files(&line).unwrap();
        assert_eq!(given.index, ["a.html", "b.html"]);
        assert_eq!(given.fallback.unwrap().as_str(), "/app.html");
        assert!(given.clean_urls && given.listing);
        let all = [Coding::Brotli, Coding::Zstd, Coding::Gzip];
        assert_eq!(given.precompressed, all);
        assert_eq!(given.compress, [OnTheFly::Brotli, OnTheFly::Gzip]);
        assert_eq!(given.cache[0].path.to_string(), "/assets/*");
        assert_eq!(given.cache[0].value, "max-age=9, immutable");
        let page = &given.error_pages[0];
        assert_eq!((page.status, page.page.as_str()), (404, "/errors/404.html"));
        let parsed = parsed(&line).unwrap();
        let field = &parsed.headers()[0];
        assert_eq!((field.name(), field.value()), ("x-a", "b: c"));
    }

    #[test]
    fn codings_can_be_chosen_and_the_folder_is_none() {
        let some = files(&["--precompressed=br,gzip", "--compress=gzip"]).unwrap();
        assert_eq!(some.precompressed, [Coding::Brotli, Coding::Gzip]);
        assert_eq!(some.compress, [OnTheFly::Gzip]);
        let all = files(&["--precompressed", "site"]).unwrap();
        assert_eq!(all.precompressed.len(), 3);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (flag, part) in [
            ("--cache=/assets/*", "expected PATTERN=VALUE"),
            ("--cache=assets=max-age=9", "`assets`"),
            ("--header=X-A", "expected NAME: VALUE"),
            ("--header=Content-Length: 3", "content-length"),
            ("--precompressed=deflate", "deflate"),
            ("--compress=deflate", "deflate"),
            ("--error-page=404", "expected STATUS=FILE"),
            ("--error-page=200=a", "status 200 has no error page"),
            ("--fallback=../a", "/../a"),
        ] {
            let error = files(&[flag]).unwrap_err();
            assert!(error.contains(part), "{flag}: {error}");
        }
    }
}
