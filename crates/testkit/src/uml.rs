//! A kernel as a process: user-mode Linux, for tests that need what the machine's own kernel may lack.
//!
//! The other kernel's file system is the machine's, read only; one temporary folder, which is gone in
//! the end, is mounted for writing. Its first process is the calling program itself, which has to call
//! [`init`] when [`is_init`] says so: it mounts what programs expect, loads the modules, runs the
//! command, leaves what it said in the folder, and switches the kernel off.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::system::{RebootCommand, finit_module, reboot};
use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The program that is the kernel.
const KERNEL: &str = "/usr/bin/linux.uml";

/// Folder in which Debian keeps the kernel's modules, with a subfolder for each version.
const MODULES: &str = "/usr/lib/uml/modules";

/// The modules that a network between namespaces takes, with netem and HTB, each after those it needs.
const NEEDED: [&str; 6] = [
    "kernel/lib/crc-ccitt.ko",
    "kernel/net/ipv6/ipv6.ko",
    "kernel/drivers/net/veth.ko",
    "kernel/drivers/net/tun.ko",
    "kernel/net/sched/sch_netem.ko",
    "kernel/net/sched/sch_htb.ko",
];

/// Tells the first process the folder that it shares with the test.
const FOLDER: &str = "ALTWAY_UML_FOLDER";

/// Mount point of that folder: a directory that every system has, and that no program here needs.
const SHARED: &str = "/mnt";

/// Repairs what this kernel does on processors with large registers; see the file itself.
const SHIM: &str = include_str!("xstate.c");

/// The files of the folder.
const COMMAND: &str = "command";
const OUTPUT: &str = "output";
const STATUS: &str = "status";

/// User-mode Linux as this machine has it.
#[derive(Debug)]
pub struct Kernel {
    modules: PathBuf,
    arguments: Vec<String>,
}

/// Result of a command under that kernel.
#[derive(Debug)]
pub struct CommandOutput {
    /// Exit code of the command.
    pub status: i32,
    /// Output of the command, standard output and standard error together.
    pub output: String,
}

impl Kernel {
    /// Looks for it.
    ///
    /// # Errors
    /// Says what is missing.
    pub fn find() -> Result<Self, String> {
        if !Path::new(KERNEL).exists() {
            return Err("user-mode Linux is not installed; see `cargo xtask setup`".into());
        }
        let versions = fs::read_dir(MODULES).map_err(|error| format!("{MODULES}: {error}"))?;
        let folders = versions.flatten().map(|entry| entry.path());
        let complete = |folder: &PathBuf| NEEDED.iter().all(|module| folder.join(module).exists());
        let modules = folders.into_iter().find(complete);
        let modules = modules.ok_or_else(|| format!("{MODULES} lacks modules"))?;
        let arguments = Vec::new();
        Ok(Self { modules, arguments })
    }

    /// Gives the first process arguments: where this program calls [`init`] in a test of Rust's own
    /// harness, `--exact` and the name of that test.
    #[must_use]
    pub fn with_arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Boots it, runs a command of that name, arguments and environment there as root, and waits for
    /// its end, `patience` long. What the command writes to the folder `TMPDIR` is lost.
    ///
    /// # Errors
    /// The kernel can't be started, says nothing in time, or ends before the command does.
    pub fn run(
        &self,
        command: &[&str],
        environment: &[(&str, &str)],
        patience: Duration,
    ) -> io::Result<CommandOutput> {
        let folder = tempfile::tempdir()?;
        let lines = environment
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let variables: Vec<String> = lines.collect();
        let modules = self.modules.to_string_lossy().into_owned();
        let told = [&[modules][..], &variables, &[String::new()]].concat();
        let told = [
            told,
            command.iter().map(|word| (*word).to_owned()).collect(),
        ]
        .concat();
        fs::write(folder.path().join(COMMAND), told.join("\n"))?;
        let kernel = boot(&folder, &self.arguments)?;
        wait(kernel, patience)?;
        let read = |name| fs::read_to_string(folder.path().join(name));
        let output = read(OUTPUT).unwrap_or_default();
        let status = read(STATUS).ok().and_then(|text| text.trim().parse().ok());
        let status = status.ok_or_else(|| {
            let console = read("console").unwrap_or_default();
            io::Error::other(format!("the kernel ended early:\n{output}\n{console}"))
        })?;
        Ok(CommandOutput { status, output })
    }
}

/// Returns true if this process is the first of another kernel.
#[must_use]
pub fn is_init() -> bool {
    std::process::id() == 1 && std::env::var_os(FOLDER).is_some()
}

/// Runs the first process of that kernel; to be called when [`is_init`] returns true, before anything else.
pub fn init() -> ! {
    let folder = std::env::var(FOLDER).unwrap_or_default();
    if let Err(error) = prepare(&folder).and_then(|()| run_command()) {
        // The folder may be what is missing.
        let _ = fs::write(Path::new(SHARED).join(OUTPUT), format!("init: {error}"));
    }
    rustix::fs::sync();
    let _ = reboot(RebootCommand::PowerOff);
    unreachable!("a kernel that is off runs nothing")
}

fn boot(folder: &TempDir, arguments: &[String]) -> io::Result<Child> {
    let path = folder.path().to_string_lossy().into_owned();
    let console = File::create(folder.path().join("console"))?;
    let mut command = Command::new(KERNEL);
    command
        .args([
            "mem=512M",
            "root=/dev/root",
            "rootfstype=hostfs",
            "ro",
            "quiet",
        ])
        .args(["con=null", "con0=null,fd:1", "panic=-1"])
        .arg(format!("init={}", std::env::current_exe()?.display()))
        .arg(format!("{FOLDER}={path}"))
        .arg("--")
        .args(arguments)
        // Below which it keeps a socket.
        .env("HOME", folder.path())
        // Its memory is a file, in /dev/shm where nothing else is said.
        .env_remove("TMPDIR")
        .stdin(Stdio::null())
        .stderr(console.try_clone()?)
        .stdout(console);
    // So that all of it can be ended at once.
    command.process_group(0);
    if let Some(shim) = compile_shim(folder.path()) {
        command.env("LD_PRELOAD", shim);
    }
    command.spawn()
}

/// `None` where there is no C compiler: most processors do without.
fn compile_shim(folder: &Path) -> Option<PathBuf> {
    let (source, library) = (folder.join("xstate.c"), folder.join("xstate.so"));
    fs::write(&source, SHIM).ok()?;
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(&source);
    let status = compiler.stderr(Stdio::null()).status().ok()?;
    status.success().then_some(library)
}

fn wait(mut kernel: Child, patience: Duration) -> io::Result<()> {
    let deadline = Instant::now() + patience;
    while kernel.try_wait()?.is_none() {
        if Instant::now() >= deadline {
            kill_process_group(Pid::from_child(&kernel), Signal::KILL)?;
            kernel.wait()?;
            return Err(io::Error::other(format!(
                "it did not end within {patience:?}"
            )));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Makes the file system what programs expect, and the folder writable.
fn prepare(folder: &str) -> io::Result<()> {
    let none = MountFlags::empty();
    mount("proc", "/proc", "proc", none, None::<&CStr>)?;
    mount("sysfs", "/sys", "sysfs", none, None::<&CStr>)?;
    match mount("devtmpfs", "/dev", "devtmpfs", none, None::<&CStr>) {
        // Some kernels do it by themselves.
        Ok(()) | Err(Errno::BUSY) => {}
        Err(errno) => return Err(errno.into()),
    }
    mount("none", "/run", "tmpfs", none, None::<&CStr>)?;
    let folder = std::ffi::CString::new(folder).map_err(io::Error::other)?;
    mount("none", SHARED, "hostfs", none, Some(folder.as_c_str()))?;
    Ok(())
}

/// Runs what the folder says, and leaves there what came of it.
fn run_command() -> io::Result<()> {
    let shared = Path::new(SHARED);
    let told = fs::read_to_string(shared.join(COMMAND))?;
    let (before, words) = told.split_once("\n\n").ok_or(io::ErrorKind::InvalidData)?;
    let mut before = before.lines();
    let modules = before.next().ok_or(io::ErrorKind::InvalidData)?;
    for module in NEEDED {
        load(&Path::new(modules).join(module))?;
    }
    let mut words = words.lines();
    let output = File::create(shared.join(OUTPUT))?;
    let mut command = Command::new(words.next().ok_or(io::ErrorKind::InvalidData)?);
    command
        .args(words)
        .env_remove(FOLDER)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", "/run")
        .env("TMPDIR", "/run")
        .envs(before.filter_map(|line| line.split_once('=')))
        .current_dir("/run")
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output);
    let status = command.status()?;
    let status = status.code().unwrap_or(-1);
    fs::write(shared.join(STATUS), status.to_string())
}

fn load(module: &Path) -> io::Result<()> {
    let file = rustix::fs::open(module, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(finit_module(file, c"", 0)?)
}
