//! The surroundings of the measured programs: a link of altway's or of rattan's on one processor, and
//! both ends on another.

use super::plan::Scale;
use super::rattan::Rattan;
use super::topic::By;
use crate::bench::placement::Placement;
use crate::bench::process::{self, Stop};
use crate::bench::site::Site;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The time that one measurement may take.
const LIMIT: Duration = Duration::from_secs(60);

/// The time that the server has until the client starts. It listens long before, so that the link
/// carries no refusals, each of which would take a draw of the loss.
const SERVER_WAIT: &str = "200ms";

/// The port of `bench-packets`.
pub(crate) const PORT: u16 = 9_000;

#[derive(Debug, Clone)]
pub(crate) struct Rig<'a> {
    pub(crate) altway: PathBuf,
    pub(crate) packets: PathBuf,
    pub(crate) site: &'a Site,
    pub(crate) rattan: Option<Rattan>,
    pub(crate) places: Option<Places>,
    pub(crate) scale: Scale,
    /// Seed of the links.
    pub(crate) seed: u64,
    pub(crate) stop: &'a Stop,
}

/// The processor of the link, and that of both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Places {
    pub(crate) link: usize,
    pub(crate) ends: usize,
}

/// The output of a run.
#[derive(Debug)]
pub(crate) struct RunOutput {
    stdout: String,
    /// altway's own report.
    pub(crate) link: Option<LinkReport>,
}

/// The output of `altway emulate --json`, as far as it matters.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct LinkReport {
    realtime_priority: Option<bool>,
    pub(crate) lateness_us_p99: Option<f64>,
    lateness_limit_us: f64,
    pub(crate) hidden_drops: u64,
}

impl Places {
    /// `None` with a single processor: then the kernel chooses.
    pub(crate) fn among(cores: &[usize]) -> Option<Self> {
        let (link, rest) = cores.split_last()?;
        let ends = *rest.first()?;
        Some(Self { link: *link, ends })
    }
}

impl Rig<'_> {
    /// The same with link and ends on one processor: the link's, or that of the ends.
    pub(crate) fn on_one_processor(&self) -> [Self; 2] {
        let on = |processor| Self {
            places: Some(Places {
                link: processor,
                ends: processor,
            }),
            ..self.clone()
        };
        let places = self.places.map(|Places { link, ends }| [link, ends]);
        places.map_or_else(|| [self.clone(), self.clone()], |both| both.map(on))
    }

    /// The server of `bench-packets`, as a line for a shell.
    pub(crate) fn packet_server(&self) -> String {
        format!("{} serve --port {PORT}", quoted(&self.packets))
    }

    /// The client of `bench-packets`, as a line for a shell in which `variable` is the server's
    /// address.
    pub(crate) fn packet_client(&self, question: &str, variable: &str) -> String {
        let (what, rest) = question.split_once(' ').unwrap_or((question, ""));
        let program = quoted(&self.packets);
        format!("{program} {what} \"${variable}:{PORT}\" {rest}")
    }

    /// Asks `bench-packets` over a link of altway's with these options.
    pub(crate) fn ask(&self, by: By, options: &[&str], question: &str) -> Result<RunOutput> {
        let client = self.packet_client(question, "ALTWAY_SERVER");
        self.emulate(by, options, &self.packet_server(), &client)
    }

    /// Runs a server and a client, lines for a shell, at the ends of a link of altway's.
    pub(crate) fn emulate(
        &self,
        by: By,
        options: &[&str],
        server: &str,
        client: &str,
    ) -> Result<RunOutput> {
        let mut command = self.altway(by);
        command.args(options).args(["--json", "--server", server]);
        command.args(["--server-wait", SERVER_WAIT, "--", "sh", "-c", client]);
        let (stdout, stderr) = self.run(&mut command)?;
        let reports = stderr.lines().rev();
        let link: LinkReport = reports
            .filter_map(|line| serde_json::from_str(line).ok())
            .next()
            .context("no report of the link")?;
        link.check_priority(by)?;
        Ok(RunOutput {
            stdout,
            link: Some(link),
        })
    }

    /// `altway emulate`, pinned, with the priority that `by` says.
    pub(crate) fn altway(&self, by: By) -> Command {
        let mut command = match by {
            // The right to real-time priority is taken from root here, and nothing else.
            By::AltwayNormal => {
                let mut command = Command::new("setpriv");
                command.args(["--bounding-set=-sys_nice", "--inh-caps=-sys_nice", "--"]);
                command.arg(&self.altway);
                command
            }
            _ => Command::new(&self.altway),
        };
        command.env("NO_COLOR", "1").env_remove("ALTWAY_LOG");
        let seed = self.seed.to_string();
        command.args(["emulate", "--congestion", "cubic", "--seed", &seed]);
        if by == By::AltwayAwake {
            command.arg("--keep-awake");
        }
        if let Some(Places { link, ends }) = self.places {
            command.args(["--pin-link", &link.to_string()]);
            for end in ["--pin-client", "--pin-server"] {
                command.args([end, &ends.to_string()]);
            }
        }
        command
    }

    /// Asks `bench-packets` over a link of rattan's that delays by so many ms each way.
    pub(crate) fn ask_rattan(&self, delay_ms: u32, question: &str) -> Result<RunOutput> {
        let rattan = self.rattan.as_ref().context("rattan is not here")?;
        let config = rattan.config(self, delay_ms, question)?;
        let mut command = rattan.command(config.path());
        let (stdout, _) = self.run(&mut command)?;
        Ok(RunOutput { stdout, link: None })
    }

    /// Runs a command, and returns what it wrote to both streams.
    fn run(&self, command: &mut Command) -> Result<(String, String)> {
        let anywhere = Placement {
            cores: &[],
            namespace: None,
        };
        let ended = process::run(command, anywhere, LIMIT, self.stop)?;
        let process::ProcessExit {
            status,
            stdout,
            stderr,
        } = ended;
        ensure!(
            status.success(),
            "{status}: {}",
            last_words(&stdout, &stderr)
        );
        Ok((stdout, stderr))
    }
}

impl RunOutput {
    /// The client's words, which are the last line that can be understood.
    pub(crate) fn report<T: DeserializeOwned>(&self) -> Result<T> {
        let whole = serde_json::from_str(&self.stdout).ok();
        let mut lines = self.stdout.lines().rev();
        let line = || lines.find_map(|line| serde_json::from_str(line).ok());
        whole.or_else(line).with_context(|| {
            let words = last_words(&self.stdout, "");
            format!("the client's words make no sense: {words}")
        })
    }
}

impl LinkReport {
    fn check_priority(&self, by: By) -> Result<()> {
        let is_realtime = self.realtime_priority == Some(true);
        let wanted = by != By::AltwayNormal;
        ensure!(
            is_realtime == wanted,
            "the link thread {} SCHED_FIFO",
            if wanted { "was not granted" } else { "has" }
        );
        Ok(())
    }

    /// The reason for which a measurement over the link does not count in the lab.
    pub(crate) fn fault(&self) -> Option<String> {
        match (self.hidden_drops, self.lateness_us_p99) {
            (0, Some(late)) if late > self.lateness_limit_us => {
                Some(format!("the link was late by {late:.0} µs"))
            }
            (0, _) => None,
            (drops, _) => Some(format!("{drops} packets were dropped outside of the link")),
        }
    }
}

/// The last two lines that a program wrote, of its complaints if there are any.
fn last_words(stdout: &str, stderr: &str) -> String {
    let of = |text: &str| {
        let lines = text.lines().map(str::trim);
        let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(2)..].join("; ")
    };
    Some(of(stderr))
        .filter(|words| !words.is_empty())
        .unwrap_or_else(|| of(stdout))
}

/// The path, quoted for a shell.
pub(crate) fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_has_a_processor_of_its_own_if_there_are_two() {
        let places = Places::among(&[2, 3, 5]);
        assert_eq!(places, Some(Places { link: 5, ends: 2 }));
        assert_eq!(Places::among(&[4]), None);
        assert_eq!(Places::among(&[]), None);
    }

    #[test]
    fn the_clients_words_are_found_among_others() {
        let told = |stdout: &str| RunOutput {
            stdout: stdout.into(),
            link: None,
        };
        let number = |stdout| told(stdout).report::<u32>().ok();
        assert_eq!(number("WARN something\n7\n"), Some(7));
        assert_eq!(number("nothing"), None);
        let spread: Vec<u32> = told("[\n1,\n2\n]\n").report().unwrap();
        assert_eq!(spread, [1, 2]);
    }

    #[test]
    fn a_program_that_fails_is_quoted_with_its_last_complaints() {
        let complaints = "link up\n{}\n\nerror: no\n";
        assert_eq!(last_words("figures\n", complaints), "{}; error: no");
        assert_eq!(last_words("1\n2\n3\n", "\n"), "2; 3");
        assert_eq!(last_words("", ""), "");
    }

    #[test]
    fn a_late_link_and_one_with_hidden_drops_are_faulty() {
        let report = |hidden_drops, late| LinkReport {
            realtime_priority: Some(true),
            lateness_us_p99: Some(late),
            lateness_limit_us: 1_000.0,
            hidden_drops,
        };
        assert_eq!(report(0, 1_000.0).fault(), None);
        assert!(report(0, 1_001.0).fault().unwrap().contains("1001 µs"));
        assert!(report(2, 5.0).fault().unwrap().contains("2 packets"));
        assert!(report(0, 5.0).check_priority(By::Altway).is_ok());
        assert!(report(0, 5.0).check_priority(By::AltwayNormal).is_err());
    }
}
