//! A Docker engine for one test: in namespaces of its own, so that the host's network and containers are
//! not its business, and nothing that it started outlives it.

use crate::common::{Dir, skipped, text};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time that the engine may take to answer, and to end.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(60);

/// The file of Compose for a server by a configuration file.
pub(super) const SITES: &str = "sites.yaml";

/// The two generations of Compose, which differ in what they make anew and when.
pub(super) enum Compose {
    /// `docker-compose`, beside the engine's first builder.
    First,
    /// `docker compose`, beside BuildKit: plugins in this folder.
    Second(PathBuf),
}

/// An engine that runs, with the project's docker/ beside it, in which the given binary is.
pub(super) struct Engine {
    compose: Compose,
    // Dropped after the engine has ended.
    dir: Dir,
    /// `unshare`, whose child is the engine.
    child: Child,
}

impl Engine {
    /// Says why when none can be started.
    pub(super) fn start(altway: &Path, compose: Compose) -> Option<Self> {
        let dir = Dir::alone();
        copy_project(&dir, altway);
        if let Compose::Second(plugins) = &compose {
            install_plugins(&dir, plugins);
        }
        let child = command(&dir).spawn().unwrap();
        let mut engine = Self {
            compose,
            dir,
            child,
        };
        let deadline = Instant::now() + ENGINE_TIMEOUT;
        while !engine.answers() {
            let ended = engine.child.try_wait().unwrap().is_some();
            if ended || Instant::now() > deadline {
                let log = fs::read_to_string(engine.dir.path().join("log")).unwrap();
                let last = log.lines().last().unwrap_or_default();
                skipped(&format!("no Docker engine can be started here: {last}"));
                return None;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(engine)
    }

    /// Another content for a file of docker/, which takes the former one's name.
    pub(super) fn replace(&self, name: &str, content: &str) {
        let next = self.dir.file("next", content);
        fs::rename(next, self.dir.path().join("docker").join(name)).unwrap();
    }

    /// Compose in docker/.
    pub(super) fn compose(&self, arguments: &[&str]) -> Command {
        let mut command = match self.compose {
            Compose::First => self.client("docker-compose"),
            Compose::Second(_) => self.docker(&["compose"]),
        };
        command.args(arguments);
        command
    }

    pub(super) fn docker(&self, arguments: &[&str]) -> Command {
        let mut command = self.client("docker");
        command.args(arguments);
        command
    }

    /// A program of the host, to which the engine publishes its containers' ports.
    pub(super) fn on_the_host(&self, program: &str) -> Command {
        let process = self.process().expect("the engine runs");
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", process.as_raw_nonzero()));
        command.arg(program).stdin(Stdio::null());
        command
    }

    fn client(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.dir.path().join("docker"));
        let buildkit = match self.compose {
            Compose::First => "0",
            Compose::Second(_) => "1",
        };
        command
            .env(
                "DOCKER_HOST",
                format!("unix://{}", socket(&self.dir).display()),
            )
            .env("DOCKER_BUILDKIT", buildkit)
            .env("HOME", self.dir.path())
            .stdin(Stdio::null());
        command
    }

    fn answers(&self) -> bool {
        let output = self.docker(&["version"]).output().unwrap();
        output.status.success()
    }

    /// The engine's own process.
    fn process(&self) -> Option<Pid> {
        let id = self.child.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
        Pid::from_raw(children.split_whitespace().next()?.parse().ok()?)
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let down = ["down", "--volumes", "--timeout", "1"];
        let _ = self.compose(&["-f", SITES]).args(down).output();
        let down = self.compose(&down).output();
        let _ = self.docker(&["rm", "--force", "alone"]).output();
        if let (Ok(down), true) = (down, std::thread::panicking()) {
            eprintln!("{}", text(&down.stderr));
        }
        if let Some(process) = self.process() {
            let _ = kill_process(process, Signal::TERM);
        }
        let deadline = Instant::now() + ENGINE_TIMEOUT;
        while !self.has_ended() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        // With it goes all that is in its namespace of processes.
        let _ = self.child.kill();
        let _ = self.child.wait();
        remove_control_groups();
    }
}

/// The project's docker/.
pub(super) fn project() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docker")
}

fn copy_project(dir: &Dir, altway: &Path) {
    let project = project();
    for name in [
        "Dockerfile",
        ".dockerignore",
        "compose.yaml",
        "sites.yaml",
        "etc/altway.toml",
        "site/index.html",
    ] {
        dir.file(
            &format!("docker/{name}"),
            fs::read(project.join(name)).unwrap(),
        );
    }
    dir.file("docker/site/1MB", vec![0; 1_000_000]);
    fs::copy(altway, dir.path().join("docker/altway")).unwrap();
}

/// Links the plugins into the folder in which `docker` looks for them, under its names for them.
fn install_plugins(dir: &Dir, from: &Path) {
    let to = dir.path().join(".docker/cli-plugins");
    fs::create_dir_all(&to).unwrap();
    for (built, name) in [("cmd", "docker-compose"), ("buildx", "docker-buildx")] {
        symlink(from.join(built), to.join(name)).unwrap();
    }
}

fn command(dir: &Dir) -> Command {
    let log = fs::File::create(dir.path().join("log")).unwrap();
    let path = |name| dir.path().join(name);
    let mut command = Command::new("unshare");
    command.args([
        "--net",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
    ]);
    command.args(["sh", "-c", "ip link set lo up && exec dockerd \"$@\"", "sh"]);
    command
        .arg("--host")
        .arg(format!("unix://{}", socket(dir).display()));
    command.arg("--data-root").arg(path("data"));
    command.arg("--exec-root").arg(path("exec"));
    command.arg("--pidfile").arg(path("pid"));
    command.arg("--cgroup-parent").arg(control_group());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    command
}

/// The control group of everything that this test's engine starts.
fn control_group() -> String {
    format!("altway-test-{}", std::process::id())
}

/// Removes the control groups that the engine leaves, in each hierarchy: of version 1 there are several, of version 2 one.
fn remove_control_groups() {
    let root = Path::new("/sys/fs/cgroup");
    let hierarchies = folders(root).chain([root.to_owned()]);
    for group in hierarchies.map(|hierarchy| hierarchy.join(control_group())) {
        for container in folders(&group) {
            let _ = fs::remove_dir(container);
        }
        let _ = fs::remove_dir(group);
    }
}

fn folders(within: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(within).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| path.is_dir())
}

fn socket(dir: &Dir) -> PathBuf {
    dir.path().join("docker.sock")
}
