//! Loads the part in the kernel, and reads its ring of events. The one file that knows `aya`.

use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::{Context, anyhow};
use aya::maps::{Array, HashMap, MapData, RingBuf};
use aya::programs::uprobe::{UProbeAttachLocation, UProbeError, UProbeScope};
use aya::programs::{Program, ProgramError, RawTracePoint, UProbe};
use aya::{Btf, Ebpf, EbpfLoader};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::event::Event;
use super::libraries::SecretPlace;

/// `probe.bpf.c`, compiled by `build.sh`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("probe.bpf.o");

/// The least capabilities that suffice without root.
pub const CAPABILITIES: &str = "cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search";

/// The programs that copy what processes read and write. The lives of processes come first, so that
/// no end is missed.
pub(super) const CALLS: [(&str, &str); 3] =
    [("process_fork", "sched_process_fork"), ("process_exit", "sched_process_exit"), ("sys_exit", "sys_exit")];

/// The program that reports the ends of watched processes.
pub(super) const EXITS: [(&str, &str); 1] = [("process_exit", "sched_process_exit")];

/// The program that reports the programs that watched clients start.
pub(super) const STARTS: [(&str, &str); 1] = [("process_exec", "sched_process_exec")];

/// The functions through which text passes, with the programs for their begin and their end. The
/// first one carries none, but derives secrets. `SSL_connect` and `SSL_accept` call it.
const TEXT_FUNCTIONS: [(&str, &str, &str); 5] = [
    ("SSL_do_handshake", "ssl_call", "ssl_shaken"),
    ("SSL_read", "ssl_call", "ssl_read"),
    ("SSL_read_ex", "ssl_call_ex", "ssl_read"),
    ("SSL_write", "ssl_call", "ssl_written"),
    ("SSL_write_ex", "ssl_call_ex", "ssl_written"),
];

/// How a process is watched. `probe.bpf.c` has the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// What passes through pipes and sockets that were named.
    Pipes = 1,
    /// That, the pipes of the programs that it starts, and its connections.
    Client = 2,
}

/// The loaded programs and their maps. The kernel removes them when this is dropped, or when this
/// process ends, whatever ends it.
pub(super) struct Probe {
    kernel: Ebpf,
    ring: RingBuf<MapData>,
}

impl Probe {
    /// Loads the object file, with a ring of so many bytes and room for so many channels. Nothing
    /// is attached by this.
    pub(super) fn load(ring: u32, channels: u32) -> anyhow::Result<Probe> {
        if !cfg!(target_arch = "x86_64") {
            return Err(anyhow!("attaching works on x86-64 only so far"));
        }
        let btf = Btf::from_sys_fs().map_err(|_| {
            anyhow!("this kernel has no description of its structures (/sys/kernel/btf/vmlinux): it needs CONFIG_DEBUG_INFO_BTF")
        })?;
        let mut loader = EbpfLoader::new();
        let mut kernel = loader
            .btf(Some(&btf))
            .map_max_entries("EVENTS", ring)
            .map_max_entries("OFFSETS", channels)
            .load(OBJECT)
            .map_err(explain)?;
        let ring = RingBuf::try_from(kernel.take_map("EVENTS").context("the object file has no ring")?)?;
        Ok(Probe { kernel, ring })
    }

    /// Copies the secrets that a library in a file of a process makes. Returns false if the file
    /// uses the function but does not contain it, or has no symbol table.
    pub(super) fn watch_secrets(&mut self, process: u32, place: &SecretPlace) -> anyhow::Result<bool> {
        match place {
            SecretPlace::OpenSsl(file) => Ok(self.watch_function("derive", "EVP_KDF_derive".into(), process, file)?
                && self.watch_function("derived", "EVP_KDF_derive".into(), process, file)?),
            SecretPlace::BoringSsl(file, offset) => self.watch_function("log_secret", (*offset).into(), process, file),
            SecretPlace::Go(file) => {
                self.watch_function("go_key_log", "crypto/tls.(*Config).writeKeyLog".into(), process, file)
            }
        }
    }

    /// Copies the text that the TLS library in a file of a process gives and takes. Returns false
    /// if the file uses the functions but does not contain them.
    pub(super) fn watch_text(&mut self, process: u32, file: &Path) -> anyhow::Result<bool> {
        for (function, begin, end) in TEXT_FUNCTIONS {
            let is_there = self.watch_function(begin, function.into(), process, file)?
                && self.watch_function(end, function.into(), process, file)?;
            if !is_there {
                return Ok(false);
            }
        }
        self.watch_function("ssl_free", "SSL_free".into(), process, file)
    }

    /// Attaches programs to places in the kernel.
    pub(super) fn watch(&mut self, points: &[(&str, &str)]) -> anyhow::Result<()> {
        for (program, point) in points {
            let program = self.kernel.program_mut(program).context("the object file lacks a program")?;
            let program: &mut RawTracePoint = program.try_into()?;
            program.load().map_err(explain)?;
            program.attach(point).map_err(explain)?;
        }
        Ok(())
    }

    /// Attaches a program to a function of one process. Returns false if the file lacks the
    /// function that was named.
    fn watch_function(
        &mut self,
        program: &str,
        function: UProbeAttachLocation<'_>,
        process: u32,
        file: &Path,
    ) -> anyhow::Result<bool> {
        let program = self.kernel.program_mut(program).context("the object file lacks a program")?;
        let program: &mut UProbe = program.try_into()?;
        if program.fd().is_err() {
            program.load().map_err(explain)?;
        }
        let process = NonZeroU32::new(process).context("process 0 cannot be watched")?;
        match program.attach(function, file, UProbeScope::OneProcess(process)) {
            Ok(_) => Ok(true),
            Err(ProgramError::UProbeError(UProbeError::SymbolError { .. })) => Ok(false),
            Err(error) => Err(explain(error)),
        }
    }

    /// Watches a process, and the children that it forks from now on.
    pub(super) fn add_process(&mut self, process: u32, watch: Watch) -> anyhow::Result<()> {
        self.processes()?.insert(process, watch as u32, 0).map_err(explain)
    }

    /// Watches a process no longer. Its children are still watched.
    pub(super) fn remove_process(&mut self, process: u32) -> anyhow::Result<()> {
        self.processes()?.remove(&process).map_err(explain)
    }

    fn processes(&mut self) -> anyhow::Result<HashMap<&mut MapData, u32, u32>> {
        let map = self.kernel.map_mut("PROCESSES").context("the object file lacks a map")?;
        Ok(HashMap::try_from(map)?)
    }

    /// Forgets an inode. What passes there is not copied.
    pub(super) fn remove_inode(&mut self, inode: u64) {
        if let Some(Ok(mut map)) = self.kernel.map_mut("INODES").map(HashMap::<_, u64, u64>::try_from) {
            let _ = map.remove(&inode);
        }
    }

    /// Copies what watched processes read from and write to this inode, each to its channel.
    pub(super) fn add_inode(&mut self, inode: u64, reads: Option<u32>, writes: Option<u32>) -> anyhow::Result<()> {
        let half = |channel: Option<u32>| channel.map_or(0, |channel| u64::from(channel) + 1);
        let map = self.kernel.map_mut("INODES").context("the object file lacks a map")?;
        HashMap::<_, u64, u64>::try_from(map)?.insert(inode, half(writes) << 32 | half(reads), 0).map_err(explain)
    }

    /// The bytes that passed through a channel so far.
    pub(super) fn passed(&self, channel: u32) -> u64 {
        let map = self.kernel.map("OFFSETS").and_then(|map| Array::<_, u64>::try_from(map).ok());
        map.and_then(|map| map.get(&channel, 0).ok()).unwrap_or_default()
    }

    /// The bytes of text that a process read and wrote through an `SSL` so far; `None` after the
    /// `SSL` was freed.
    pub(super) fn text_passed(&self, process: u32, ssl: u64) -> Option<[u64; 2]> {
        let map = HashMap::<_, [u64; 2], [u64; 2]>::try_from(self.kernel.map("TEXTS")?).ok()?;
        map.get(&[ssl, process.into()], 0).ok()
    }

    /// Forgets a connection of a process that ended.
    pub(super) fn forget_text(&mut self, process: u32, ssl: u64) {
        let map = self.kernel.map_mut("TEXTS").and_then(|map| HashMap::<_, [u64; 2], [u64; 2]>::try_from(map).ok());
        let _ = map.map(|mut map| map.remove(&[ssl, process.into()]));
    }

    /// Detaches all programs. What the ring holds can still be taken, and nothing more gets in.
    pub(super) fn detach(&mut self) {
        for (_, program) in self.kernel.programs_mut() {
            // A program that was not attached cannot be unloaded, and need not be.
            let _ = match program {
                Program::UProbe(program) => program.unload(),
                Program::RawTracePoint(program) => program.unload(),
                _ => Ok(()),
            };
        }
    }

    /// Takes the next event out of the ring. Returns false if the ring is empty.
    pub(super) fn next(&mut self, take: impl FnOnce(Event<'_>)) -> bool {
        let Some(item) = self.ring.next() else { return false };
        if let Some(event) = Event::parse(&item) {
            take(event);
        }
        true
    }

    /// Waits until the ring fills, or this time has passed.
    pub(super) fn wait(&self, time: &Timespec) {
        let _ = poll(&mut [PollFd::from_borrowed_fd(self.ring.as_fd(), PollFlags::IN)], Some(time));
    }
}

/// Names the reason for a refusal of the kernel, as far as it is known, and what to do.
fn explain<E: std::error::Error + Send + Sync + 'static>(error: E) -> anyhow::Error {
    let error = anyhow!(error);
    let denied = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    let is_denied = denied.into_iter().any(|cause| cause.kind() == std::io::ErrorKind::PermissionDenied);
    if is_denied {
        let program = std::env::current_exe().map_or("mcptap".into(), |path| path.display().to_string());
        return anyhow!(
            "the kernel does not permit it: run it as root, or once: sudo setcap {CAPABILITIES}=ep {program}"
        );
    }
    error.context("the kernel refused to load or attach a program")
}
