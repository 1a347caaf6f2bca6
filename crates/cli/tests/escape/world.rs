//! What the attacks reach for: files, and a process beside the attacked one.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const HOOK: &str = "belljar was built with the hook of the escape tests";
const VICTIM: &str = "BELLJAR_VICTIM";
const SECRET: &str = "nobody else is to read this";
const PRELUDE: &str = include_str!("attacks/hook.py");

/// The system calls that attacks make, by name: their numbers differ between processors.
macro_rules! numbers {
    ($($name:ident)*) => {
        [$((stringify!($name), libc::$name)),*]
    };
}

#[rustfmt::skip]
fn numbers() -> Value {
    let numbers = numbers!(
        SYS_acct SYS_add_key SYS_adjtimex SYS_bind SYS_bpf SYS_capget SYS_capset SYS_chroot
        SYS_clock_gettime SYS_clock_settime SYS_clone SYS_clone3 SYS_close SYS_connect
        SYS_delete_module SYS_execve SYS_execveat SYS_exit_group SYS_fanotify_init SYS_fchmod
        SYS_fchmodat SYS_fchownat SYS_fcntl SYS_finit_module SYS_fsopen SYS_getdents64 SYS_getpid
        SYS_init_module SYS_inotify_add_watch SYS_inotify_init1 SYS_io_setup SYS_io_uring_setup
        SYS_ioctl SYS_ioprio_set SYS_kcmp SYS_kexec_load SYS_keyctl SYS_kill SYS_linkat SYS_listen
        SYS_memfd_create SYS_mkdirat SYS_mknodat SYS_mlock SYS_mmap SYS_mount SYS_move_pages
        SYS_mq_open SYS_mq_unlink SYS_msgctl SYS_msgget SYS_name_to_handle_at SYS_nanosleep
        SYS_newfstatat SYS_open_by_handle_at SYS_openat SYS_openat2 SYS_perf_event_open
        SYS_personality SYS_pidfd_getfd SYS_pidfd_open SYS_pidfd_send_signal SYS_pivot_root
        SYS_prctl SYS_pread64 SYS_prlimit64 SYS_process_vm_readv SYS_process_vm_writev SYS_ptrace
        SYS_quotactl SYS_read SYS_reboot SYS_renameat2 SYS_rt_sigaction SYS_rt_sigqueueinfo
        SYS_sched_setaffinity SYS_sched_setscheduler SYS_semctl SYS_semget SYS_sendto SYS_setgroups
        SYS_sethostname SYS_setns SYS_setpgid SYS_setpriority SYS_setresuid SYS_setsid
        SYS_settimeofday SYS_setxattr SYS_shmctl SYS_shmget SYS_socket SYS_socketpair SYS_swapoff
        SYS_swapon SYS_symlinkat SYS_syslog SYS_tgkill SYS_tkill SYS_truncate SYS_umount2 SYS_uname
        SYS_unlinkat SYS_unshare SYS_userfaultfd SYS_utimensat SYS_wait4 SYS_write
    );
    numbers.map(|(name, number)| (name.trim_start_matches("SYS_"), number)).into_iter().collect()
}

/// Files, and a victim. Dropped, both are gone.
pub(crate) struct World {
    folder: TempDir,
    victim: Victim,
}

/// What an attack could change: of files their kind, size, owner and time, and how many processes
/// have this world's paths in their arguments.
#[derive(Debug, PartialEq)]
pub(crate) struct State {
    files: BTreeMap<PathBuf, String>,
    victim_lives: bool,
    processes: usize,
}

impl World {
    pub(crate) fn new() -> std::io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("belljar-escape-").tempdir()?;
        for name in ["home/.ssh", "work", "data", "out", "keys", "state", "store", "tmp"] {
            std::fs::create_dir_all(folder.path().join(name))?;
        }
        for name in ["home/.ssh/id_ed25519", "home/keys.toml"] {
            std::fs::write(folder.path().join(name), SECRET)?;
        }
        std::fs::write(folder.path().join("data/text"), "mounted")?;
        let victim = Victim::start(folder.path())?;
        Ok(Self { folder, victim })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command, with files of this world only.
    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_belljar"));
        command
            .current_dir(self.path("work"))
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .env_remove("BELLJAR_BUNDLE")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .stdout(Stdio::piped());
        command
    }

    /// The code of an attack, with what it knows.
    fn code(&self, name: &str, source: &str, more: &Value) -> String {
        let low_port = (600..1024).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
        let mut world = json!({
            "abstract": abstract_name(self.victim.process),
            "address": self.victim.address,
            "cache": cache(),
            "code": native_code(),
            "data": self.path("data"),
            "home": self.path("home"),
            "keys": self.path("keys/keys.toml"),
            "low_port": low_port.unwrap_or_default(),
            "out": self.path("out"),
            "port": self.victim.port,
            "root": self.folder.path(),
            "secret": SECRET,
            "socket": self.path("victim.sock"),
            "state": self.path("state"),
            "store": self.path("store"),
            "udp_port": self.victim.udp_port,
            "victim": self.victim.process,
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            world[key] = value.clone();
        }
        let numbers = numbers();
        format!("WORLD = {world}\nNUMBERS = {numbers}\n{PRELUDE}\n{source}\nattempt({name})\n")
    }

    /// Has `belljar run` run an attack, and returns its output.
    pub(crate) fn run(&self, name: &str, source: &str, is_locked: bool) -> std::io::Result<String> {
        let mount = format!("{}:/data", self.path("data").display());
        let output = self
            .command()
            .args(["run", how(is_locked), "--mount", &mount, "--out"])
            .arg(self.path("out"))
            .arg("--cache")
            .arg(cache())
            .args(["-c", &self.code(name, source, &json!({}))])
            .output()?;
        Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    }

    /// Has `belljar serve` run an attack for an account, and returns what the run printed. With
    /// `is_isolated` the account has a process of its own, and another account has, too.
    pub(crate) fn serve(
        &self,
        name: &str,
        source: &str,
        is_locked: bool,
        is_isolated: bool,
    ) -> std::io::Result<String> {
        let keys = self.path("keys/keys.toml");
        let mut made = Vec::new();
        for account in ["somebody", "another"] {
            let mut command = self.command();
            let output = command.args(["key", account, "--keys"]).arg(&keys).output()?.stdout;
            made.push(String::from_utf8_lossy(&output).trim().to_owned());
        }
        let mut command = self.command();
        command.args(["serve", how(is_locked), "--listen", "127.0.0.1:0", "--json"]);
        command.arg("--keys").arg(keys).arg("--state").arg(self.path("state"));
        command.args(["--isolate", if is_isolated { "accounts" } else { "none" }]);
        command.arg("--store").arg(format!("file://{}", self.path("store").display()));
        command.arg("--cache").arg(cache()).stderr(Stdio::inherit());
        let mut server = Ends(command.spawn()?);
        let mut line = String::new();
        BufReader::new(server.0.stdout.take().expect("a pipe")).read_line(&mut line)?;
        let ready: Value = serde_json::from_str(&line)?;
        let address = ready["url"].as_str().and_then(|url| url.strip_prefix("http://"));
        let address = address.expect("an address");
        let mut knows = json!({});
        if is_isolated {
            let front = server.0.id();
            let spawner = children(front).first().copied().expect("a front has a spawner");
            let before = children(spawner);
            post(address, &made[0], "print(1)")?;
            let worker = children(spawner).into_iter().find(|child| !before.contains(child));
            let worker = worker.expect("an account has a worker");
            knows = json!({"front": front, "spawner": spawner, "worker": worker});
        }
        post(address, &made[1], &self.code(name, source, &knows))
    }

    pub(crate) fn state(&self) -> std::io::Result<State> {
        let mut files = BTreeMap::new();
        for name in ["home", "work", "data", "victim.sock"] {
            describe(&self.path(name), &mut files)?;
        }
        // What is made beside them.
        for entry in std::fs::read_dir(self.folder.path())? {
            files.entry(entry?.path()).or_default();
        }
        Ok(State {
            files,
            victim_lives: self.victim.lives(),
            processes: self.processes()?,
        })
    }

    /// How many processes have this world's directory in their arguments.
    fn processes(&self) -> std::io::Result<usize> {
        let needle = self.folder.path().as_os_str().as_encoded_bytes();
        let mut count = 0;
        for entry in std::fs::read_dir("/proc")? {
            let arguments = std::fs::read(entry?.path().join("cmdline")).unwrap_or_default();
            count += usize::from(arguments.windows(needle.len()).any(|part| part == needle));
        }
        Ok(count)
    }
}

/// Has a server run code, and returns what it printed, or the whole answer if it printed nothing.
fn post(address: &str, key: &str, code: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    let body = json!({"code": code}).to_string();
    write!(
        stream,
        "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Authorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let outcome: Value = serde_json::from_str(body).unwrap_or_default();
    let printed = outcome["stdout"].as_str().filter(|text| !text.is_empty());
    Ok(printed.map_or(answer.clone(), str::to_owned))
}

/// The child processes of a process.
fn children(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .filter(|process: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            // After the name, which may contain anything: the state, and the parent.
            let after = stat.rsplit_once(") ").map_or("", |(_, after)| after);
            after.split(' ').nth(1) == Some(&parent.to_string())
        })
        .collect()
}

fn how(is_locked: bool) -> &'static str {
    if is_locked {
        "--lockdown=require"
    } else {
        "--no-lockdown"
    }
}

/// Adds a file, and all that is below it.
fn describe(path: &Path, files: &mut BTreeMap<PathBuf, String>) -> std::io::Result<()> {
    let metadata = path.symlink_metadata()?;
    let text = format!(
        "{:o} {} {} {} {}",
        metadata.mode(),
        metadata.uid(),
        metadata.size(),
        metadata.ctime(),
        metadata.ctime_nsec()
    );
    files.insert(path.to_owned(), text);
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path)? {
            describe(&entry?.path(), files)?;
        }
    }
    Ok(())
}

/// The cache, complete: otherwise it would stay writable.
fn cache() -> &'static Path {
    static CACHE: OnceLock<PathBuf> = OnceLock::new();
    CACHE.get_or_init(|| {
        let runtime = belljar::Runtime::builder().environment().build().expect("the engine starts");
        runtime.compile(belljar::setup::Tier::All).expect("Python is compiled");
        for image in ["core", "data", "science"] {
            runtime.images().prepare(image).expect("the image is baked");
        }
        let core = runtime.images().get("core").expect("the image is there").path;
        core.ancestors().nth(2).expect("images are in a directory of the cache").to_owned()
    })
}

/// A file with native code, which every process runs.
fn native_code() -> PathBuf {
    let files = std::fs::read_dir(cache().join("code")).expect("there is code");
    files.map(|file| file.expect("an entry").path()).next().expect("code was compiled")
}

pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Whether attacks that this machine cannot show are failures.
pub(crate) fn must_run() -> bool {
    std::env::var_os("BELLJAR_TEST_NO_SKIPS").is_some_and(|value| !value.is_empty())
}

fn abstract_name(process: u32) -> String {
    format!("belljar-escape-{process}")
}

/// A process that ends when this is dropped.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        // It may be gone: that was the attack.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process to be attacked.
struct Victim {
    _child: Ends,
    process: u32,
    address: usize,
    port: u16,
    udp_port: u16,
}

impl Victim {
    fn start(folder: &Path) -> std::io::Result<Self> {
        let mut start = Command::new(std::env::current_exe()?);
        start.env(VICTIM, SECRET).current_dir(folder);
        let mut child = Ends(start.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
        let mut line = String::new();
        BufReader::new(child.0.stdout.take().expect("a pipe")).read_line(&mut line)?;
        let mut words = line.split_whitespace();
        let mut next = || words.next().expect("the victim says four numbers");
        Ok(Self {
            process: child.0.id(),
            address: next().parse().expect("an address"),
            port: next().parse().expect("a port"),
            udp_port: next().parse().expect("a port"),
            _child: child,
        })
    }

    /// Whether it runs: a process that has ended is listed until it is waited for.
    fn lives(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process));
        stat.is_ok_and(|stat| {
            stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
        })
    }
}

/// The victim's life, if this process was started for that: it ends with its input.
pub(crate) fn as_victim() -> Option<ExitCode> {
    let secret = std::env::var(VICTIM).ok()?;
    let tcp = TcpListener::bind("127.0.0.1:0").ok()?;
    let udp = UdpSocket::bind("127.0.0.1:0").ok()?;
    let hidden = abstract_name(std::process::id());
    let name = |name: &str| SocketAddr::from_abstract_name(name).ok();
    let _stream = UnixListener::bind_addr(&name(&hidden)?).ok()?;
    let _datagrams = UnixDatagram::bind_addr(&name(&format!("{hidden}-datagrams"))?).ok()?;
    let _path = UnixListener::bind("victim.sock").ok()?;
    let _datagrams_by_path = UnixDatagram::bind("victim.sock-datagrams").ok()?;
    let (port, udp_port) = (tcp.local_addr().ok()?.port(), udp.local_addr().ok()?.port());
    println!("{} {port} {udp_port}", secret.as_ptr().addr());
    std::io::stdout().flush().ok()?;
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    drop(secret);
    Some(ExitCode::SUCCESS)
}
