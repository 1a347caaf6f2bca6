//! The attacker, its victim, and the files between them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use super::{Attack, lock};

const ATTACK: &str = "BELLJAR_ATTACK";
const VICTIM: &str = "BELLJAR_VICTIM";
/// How the attacker says that it failed.
const FAILED: u8 = 3;

/// What the attacker knows.
pub(crate) struct World {
    root: PathBuf,
    name: String,
    /// The victim's process.
    pub victim: i32,
    /// Where in its memory the secret is.
    pub address: usize,
    /// Where it listens.
    pub port: u16,
    pub udp_port: u16,
    /// The port that the attacker may connect to, if it keeps a port.
    pub allowed_port: u16,
}

/// How an attack ended.
#[derive(Debug)]
pub(crate) enum Ended {
    Succeeded,
    Failed(String),
    Killed,
}

impl Ended {
    /// Whether this kernel was built without what the attack calls.
    pub(crate) fn is_absent(&self) -> bool {
        let absent = std::io::Error::from_raw_os_error(libc::ENOSYS).to_string();
        matches!(self, Self::Failed(why) if *why == absent)
    }
}

pub(crate) const SECRET: &[u8; 16] = b"the victim's own";

impl World {
    /// A file or directory between the two: `home/secret`, `readable/text` and `writable` are
    /// there.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(crate) fn abstract_name(&self) -> String {
        format!("belljar-victim-{}", self.victim)
    }

    /// Whether the attacker is left a port.
    pub(crate) fn keeps_port(&self) -> bool {
        self.name.contains("port")
    }
}

/// Whether an attack must be possible here.
pub(crate) fn must_run() -> bool {
    std::env::var_os("BELLJAR_TEST_NO_SKIPS").is_some_and(|value| !value.is_empty())
}

/// Has another process do it, locked down or as it is.
pub(crate) fn attack(name: &str, is_locked: bool) -> Result<Ended, std::io::Error> {
    let folder = tempfile::tempdir()?;
    for directory in ["home", "readable", "writable"] {
        std::fs::create_dir(folder.path().join(directory))?;
    }
    std::fs::write(folder.path().join("home/secret"), SECRET)?;
    std::fs::write(folder.path().join("readable/text"), "for all")?;
    let allowed = TcpListener::bind("127.0.0.1:0")?;
    let mut victim = Victim::start(folder.path())?;
    let facts = format!(
        "{name}\n{}\n{}\n{}\n{}",
        if is_locked { "locked" } else { "free" },
        folder.path().display(),
        victim.facts()?,
        allowed.local_addr()?.port()
    );
    let output = Command::new(std::env::current_exe()?)
        .env(ATTACK, facts)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()?;
    let said = || {
        let text = [&output.stdout[..], &output.stderr[..]].concat();
        String::from_utf8_lossy(&text).trim().to_owned()
    };
    Ok(match (output.status.code(), output.status.signal()) {
        (Some(0), _) => Ended::Succeeded,
        (Some(code), _) if code == i32::from(FAILED) => Ended::Failed(said()),
        (_, Some(libc::SIGSYS)) => Ended::Killed,
        _ => return Err(std::io::Error::other(format!("{}: {}", output.status, said()))),
    })
}

/// The attack that this process was started for, if it was.
pub(crate) fn as_attacker(attacks: &[(&str, Attack)]) -> Option<ExitCode> {
    let facts = std::env::var(ATTACK).ok()?;
    let mut facts = facts.lines();
    let mut next = || facts.next().expect("the facts are whole");
    let name = next().to_owned();
    let is_locked = next() == "locked";
    let world = World {
        name,
        root: next().into(),
        victim: next().parse().expect("a process"),
        address: next().parse().expect("an address"),
        port: next().parse().expect("a port"),
        udp_port: next().parse().expect("a port"),
        allowed_port: next().parse().expect("a port"),
    };
    let (_, attack) = attacks.iter().find(|(name, _)| *name == world.name)?;
    let done = attack(&world, &|| {
        if is_locked {
            lock(&world);
        }
    });
    Some(match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("{why}");
            ExitCode::from(FAILED)
        }
    })
}

/// A process to be attacked. Dropped, it ends.
struct Victim(Child);

impl Victim {
    fn start(folder: &Path) -> Result<Self, std::io::Error> {
        let mut start = Command::new(std::env::current_exe()?);
        start.env(VICTIM, folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(Self(start.spawn()?))
    }

    /// What it says about itself, a line each.
    fn facts(&mut self) -> Result<String, std::io::Error> {
        let stdout = self.0.stdout.take().expect("a pipe was asked for");
        let mut lines = BufReader::new(stdout).lines();
        let mut facts = Vec::new();
        for _ in 0..4 {
            facts.push(lines.next().ok_or(std::io::ErrorKind::UnexpectedEof)??);
        }
        Ok(facts.join("\n"))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // It may be gone: that was the attack.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The victim's life, if this process was started for that: it ends with its input.
pub(crate) fn as_victim() -> Option<ExitCode> {
    let folder = PathBuf::from(std::env::var_os(VICTIM)?);
    let secret = Box::new(*SECRET);
    let tcp = TcpListener::bind("127.0.0.1:0").ok()?;
    let udp = UdpSocket::bind("127.0.0.1:0").ok()?;
    let process = std::process::id();
    let hidden = format!("belljar-victim-{process}");
    let name = |name: &str| SocketAddr::from_abstract_name(name).ok();
    let _stream = UnixListener::bind_addr(&name(&hidden)?).ok()?;
    let _datagrams = UnixDatagram::bind_addr(&name(&format!("{hidden}-datagrams"))?).ok()?;
    let _path = UnixListener::bind(folder.join("victim.sock")).ok()?;
    println!("{process}\n{}", (&raw const *secret).addr());
    println!("{}\n{}", tcp.local_addr().ok()?.port(), udp.local_addr().ok()?.port());
    std::io::stdout().flush().ok()?;
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    drop(secret);
    Some(ExitCode::SUCCESS)
}

/// What a system call returns, as a result.
pub(crate) fn done(returned: i64) -> Result<i64, String> {
    if returned >= 0 {
        return Ok(returned);
    }
    Err(std::io::Error::last_os_error().to_string())
}

/// Whether a call was made at all: the kernel refuses these arguments itself, and for another
/// reason.
pub(crate) fn reached(returned: i64) -> Result<(), String> {
    let error = std::io::Error::last_os_error();
    let is_denied = matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES | libc::ENOSYS));
    if returned < 0 && is_denied {
        Err(error.to_string())
    } else {
        Ok(())
    }
}

/// Turns an error of Rust into the reason of a failure.
pub(crate) fn told<T>(result: std::io::Result<T>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

/// A path for a system call.
pub(crate) fn c(path: impl AsRef<Path>) -> std::ffi::CString {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::CString::new(path.as_ref().as_os_str().as_bytes()).expect("no zero in a path")
}
