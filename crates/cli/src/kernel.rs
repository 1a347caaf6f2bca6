//! `belljar kernel`: a session for a notebook.

mod options;
mod starting;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use belljar_kernel::spec::{self, Place};
use belljar_kernel::{Kernel, zmq};

use super::args::Global;
use super::exit::{Exit, Usage};
use super::interrupt::Interrupt;
use super::printer::Printer;
pub(super) use options::KernelArgs;
use options::{InstallArgs, KernelCommand};
use starting::Starting;

/// Interval between checks that the parent process still exists.
const WATCH: Duration = Duration::from_secs(1);

/// Serves a connection file, or installs the kernelspec.
pub(super) fn kernel(
    args: &KernelArgs,
    global: &Global,
    printer: &Arc<Printer>,
) -> anyhow::Result<Exit> {
    match &args.command {
        Some(KernelCommand::Install(install)) => self::install(install, global, printer),
        None => serve(args, global, printer),
    }
}

fn install(args: &InstallArgs, global: &Global, printer: &Printer) -> anyhow::Result<Exit> {
    let place = match (&args.prefix, args.sys_prefix) {
        (Some(prefix), _) => Place::Prefix(prefix.clone()),
        (None, true) => Place::Prefix(environment()?),
        (None, false) => Place::User,
    };
    let own = std::env::current_exe().context("cannot find the path of this command")?;
    let Some(own) = own.to_str() else {
        return Err(Usage::new(format!("{} is not UTF-8", own.display())).into());
    };
    let mut arguments = vec![own.to_owned(), "kernel".to_owned()];
    for (name, path) in [("--cache", &global.cache), ("--wheel", &global.wheel)] {
        if let Some(path) = path {
            let path =
                std::path::absolute(path).context("cannot make the path of an option absolute")?;
            arguments.extend([name.to_owned(), path.to_string_lossy().into_owned()]);
        }
    }
    arguments.extend(args.options.arguments());
    let kernelspec = spec::kernelspec(&arguments, &args.display_name);
    let directory = spec::install(&place, &args.name, &kernelspec)?;
    printer.note(&format!("kernel {} is installed in {}", args.name, directory.display()));
    Ok(Exit::Success)
}

/// The active Python environment.
fn environment() -> Result<std::path::PathBuf, Usage> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    set("VIRTUAL_ENV").or_else(|| set("CONDA_PREFIX")).map(Into::into).ok_or_else(|| {
        Usage::new("--sys-prefix needs an active Python environment")
            .hint("activate one, or name its directory with --prefix")
    })
}

fn serve(args: &KernelArgs, global: &Global, printer: &Arc<Printer>) -> anyhow::Result<Exit> {
    let foreign = args.foreign.iter().map(|one| one.to_string_lossy()).collect::<Vec<_>>();
    let Some(file) = args.file.clone() else {
        if let Some(first) = foreign.first() {
            return Err(Usage::new(format!("unexpected argument '{first}'"))
                .hint("belljar kernel --help lists the options")
                .into());
        }
        return Err(Usage::new("no connection file")
            .hint("Jupyter starts kernels itself: register this one with belljar kernel install")
            .into());
    };
    if !foreign.is_empty() {
        printer.note(&format!("ignored: {}", foreign.join(" ")));
    }
    let request = args.options.request()?;
    let starting = Starting::new(global, printer, request.clone(), args.options.lockdown.clone());
    let engine = starting.engine();
    let running = Arc::new(std::sync::OnceLock::<Kernel>::new());
    // Jupyter interrupts by message. Ctrl-C comes from a terminal that the kernel shares.
    let interrupt = {
        let running = Arc::clone(&running);
        Interrupt::watch_except(move || {
            if let Some(kernel) = running.get() {
                let _ = kernel.interrupt();
            }
            true
        })
    };
    let reactor = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot wait for events")?;
    let mut each = request;
    // These apply to the session only.
    each.image = belljar::request::ImageChoice::Auto;
    each.mounts.clear();
    each.files.clear();
    each.env.clear();
    each.limits = belljar::RequestLimits::default();
    let exit = reactor.block_on(async {
        let serving = zmq::serve(&file, starting, each).await?;
        // Cannot fail: this is the only place that sets it.
        let _ = running.set(serving.kernel().clone());
        let exit = tokio::select! {
            () = serving.kernel().over() => Exit::Success,
            () = orphaned() => Exit::Success,
            exit = interrupt.arrived() => exit,
        };
        serving.close().await;
        // An engine that is still starting has nothing to clean up.
        drop(engine.try_lock().map(|mut engine| engine.take()));
        anyhow::Ok(exit)
    });
    // Do not wait for a thread that is setting something up.
    reactor.shutdown_background();
    exit
}

/// Waits until the parent process has gone, if the kernel is to end with it.
async fn orphaned() {
    let wanted = std::env::var("JPY_PARENT_PID").ok().and_then(|pid| pid.parse::<u32>().ok());
    let Some(wanted) = wanted.filter(|wanted| is_parent(*wanted)) else {
        return std::future::pending().await;
    };
    while is_parent(wanted) {
        tokio::time::sleep(WATCH).await;
    }
}

#[cfg(unix)]
fn is_parent(process: u32) -> bool {
    std::os::unix::process::parent_id() == process
}

#[cfg(not(unix))]
fn is_parent(_: u32) -> bool {
    false
}
