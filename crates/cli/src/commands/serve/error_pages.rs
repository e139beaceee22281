//! Error pages of a configuration that are not there.
//!
//! Nothing is refused for one: a folder that a deployment switches may bring it later, and until then responses have the page
//! that they have without.

use altway_config::{Action, ErrorPage, Files, Plan};
use altway_serve::Files as Folder;

/// The most missing pages that are named.
const MOST: usize = 8;

/// Returns warnings of pages that are not there, those of the first sites, and how many more there are.
pub(super) fn warnings(plan: &Plan) -> Vec<String> {
    let routes = plan.sites().iter().flat_map(|site| &site.routes);
    let folders = routes.filter_map(|route| match &route.action {
        Action::Files(files) if !files.error_pages.is_empty() => Some(files),
        _ => None,
    });
    let mut warnings: Vec<_> = folders
        .filter_map(|files| Some((files, Folder::open(&files.root).ok()?)))
        .flat_map(|(files, folder)| missing(files, &folder))
        .map(|(_, warning)| warning)
        .collect();
    let more = warnings.len().saturating_sub(MOST);
    if more > 0 {
        warnings.truncate(MOST);
        warnings.push(format!("{more} more error pages are not there"));
    }
    warnings
}

/// Returns the places of missing pages in `error-pages` and the warnings of them.
pub(in crate::commands) fn missing(files: &Files, folder: &Folder) -> Vec<(usize, String)> {
    let pages = files.error_pages.iter().enumerate();
    let missing = pages.filter(|(_, page)| !folder.has_file(page.page.as_str()));
    let warned = missing.map(|(index, page)| (index, warning(files, page)));
    warned.collect()
}

fn warning(files: &Files, ErrorPage { status, page }: &ErrorPage) -> String {
    let root = files.root.display();
    format!(
        "the error page `{}` is not in `{root}`: responses of status {status} have altway's own page until it is",
        page.as_str()
    )
}
