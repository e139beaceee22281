//! Checks of what goes together in uploads.

use super::check::Check;
use crate::{PathPattern, Upload, UploadMethod};

impl Check<'_> {
    pub(super) fn upload(&mut self, upload: &Upload, pattern: &PathPattern, route: &str) {
        let path = format!("{route}.upload");
        self.twice(&upload.methods, &path, "methods");
        if matches!(pattern, PathPattern::Suffix(_)) {
            self.fault(
                &path,
                format!(
                    "`upload` needs a route with a path for each file, and this one is `{pattern}`"
                ),
                "give `path = \"/incoming/*\"`, or one path for forms alone, like `/incoming`",
            );
        }
        let has = |method| upload.methods.contains(&method);
        if matches!(pattern, PathPattern::Exact(_)) && has(UploadMethod::Put) {
            self.fault(
                &path,
                format!("a file that is PUT has its name from the path, and the route is `{pattern}` alone"),
                format!("give `path = \"{}/*\"`, or `methods = \"POST\"`", pattern.to_string().trim_end_matches('/')),
            );
        }
        if upload.resumable && !has(UploadMethod::Put) {
            self.fault(
                &format!("{path}.resumable"),
                "uploads by PUT alone can be resumed, and `methods` leaves it out",
                "leave `resumable` out, or add `PUT` to `methods`",
            );
        }
    }
}
