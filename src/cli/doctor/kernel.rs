//! What this machine permits to record, for each way of recording: facts from its files, and what
//! to do about them.

use std::env;
use std::fs;
use std::path::Path;

use super::{CheckResult, Health};

/// The first kernel on which the part of `attach` in the kernel works.
const KERNEL: (u32, u32) = (5, 17);

/// Capabilities by their bit (`linux/capability.h`).
const BPF: (&str, u32) = ("cap_bpf", 39);
const PERFMON: (&str, u32) = ("cap_perfmon", 38);
const SYS_PTRACE: (&str, u32) = ("cap_sys_ptrace", 19);
const DAC_READ_SEARCH: (&str, u32) = ("cap_dac_read_search", 2);
const NET_RAW: (&str, u32) = ("cap_net_raw", 13);

/// A way of recording that needs rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// `mcptap attach`
    Attach,
    /// `mcptap sniff --keys-from`
    KeysFrom,
    /// `mcptap run`
    Run,
}

impl Way {
    fn capabilities(self) -> &'static [(&'static str, u32)] {
        match self {
            Way::Attach => &[BPF, PERFMON, SYS_PTRACE, DAC_READ_SEARCH],
            Way::KeysFrom => &[BPF, PERFMON, SYS_PTRACE, DAC_READ_SEARCH, NET_RAW],
            // The client and its servers are processes of the same user.
            Way::Run => &[BPF, PERFMON, NET_RAW],
        }
    }

    /// What works although something is missing.
    fn otherwise(self) -> &'static str {
        match self {
            Way::Attach => "servers that run cannot be recorded; \"mcptap wrap\" needs no rights",
            Way::KeysFrom => "no TLS secrets from running programs; \"mcptap proxy --intercept\" needs no rights",
            Way::Run => "only STDIO servers that a client starts by name are recorded",
        }
    }
}

/// The facts about a machine and this process.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// The version of the kernel.
    release: String,
    /// Whether the kernel describes its structures (BTF).
    has_btf: bool,
    /// The level of lockdown: none, integrity or confidentiality.
    lockdown: Option<String>,
    /// The kind of container in which this process is.
    container: Option<&'static str>,
    /// The value of `kernel.unprivileged_bpf_disabled`.
    unprivileged_bpf: Option<String>,
    /// The effective capabilities, one bit each.
    capabilities: u64,
    is_root: bool,
}

impl Facts {
    /// Reads the facts from the files below a root.
    pub(super) fn read(root: &Path) -> Facts {
        let text = |path: &str| fs::read_to_string(root.join(path)).ok().map(|text| text.trim().to_owned());
        let status = text("proc/self/status").unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let capabilities = field("CapEff:").and_then(|set| u64::from_str_radix(set, 16).ok()).unwrap_or_default();
        let is_root = field("Uid:").is_some_and(|ids| ids.split_whitespace().nth(1) == Some("0"));
        // "none [integrity] confidentiality"
        let lockdown = text("sys/kernel/security/lockdown")
            .and_then(|text| Some(text.split_once('[')?.1.split_once(']')?.0.to_owned()));
        Facts {
            release: text("proc/sys/kernel/osrelease").unwrap_or_default(),
            has_btf: root.join("sys/kernel/btf/vmlinux").exists(),
            lockdown,
            container: container(root, &text("proc/1/cgroup").unwrap_or_default()),
            unprivileged_bpf: text("proc/sys/kernel/unprivileged_bpf_disabled"),
            capabilities,
            is_root,
        }
    }

    /// The capabilities of these that are missing.
    fn missing(&self, needed: &[(&'static str, u32)]) -> Vec<&'static str> {
        needed.iter().filter(|(_, bit)| self.capabilities >> bit & 1 == 0).map(|(name, _)| *name).collect()
    }

    /// The result for a way of recording. `program` is the path of mcptap.
    pub(super) fn check(&self, way: Way, program: &str) -> (Health, String) {
        let mut lines = Vec::new();
        if version(&self.release).is_some_and(|version| version < KERNEL) {
            lines.push(format!("the kernel is {}: it takes 5.17 or later", self.release));
        }
        if !self.has_btf {
            lines.push("the kernel lacks /sys/kernel/btf/vmlinux (BTF): use one with CONFIG_DEBUG_INFO_BTF".to_owned());
        }
        if self.lockdown.as_deref() == Some("confidentiality") {
            lines.push(
                "lockdown is \"confidentiality\": no program may read memory; boot with lockdown=integrity".to_owned(),
            );
        }
        let missing = self.missing(way.capabilities());
        if !missing.is_empty() {
            lines.push(self.advice(way, &missing, program));
        }
        if lines.is_empty() {
            let container = self.container.map(|kind| format!("; in {kind}, only its own processes are seen"));
            let release = &self.release;
            return (Health::Works, format!("kernel {release}, BTF, capabilities{}", container.unwrap_or_default()));
        }
        lines.insert(0, way.otherwise().to_owned());
        (Health::Note, lines.join("\n"))
    }

    /// How to get missing capabilities.
    fn advice(&self, way: Way, missing: &[&str], program: &str) -> String {
        let names = missing.join(", ");
        if let Some(kind) = self.container.filter(|_| self.is_root) {
            let adds: Vec<String> = missing
                .iter()
                .map(|name| format!("--cap-add {}", name.trim_start_matches("cap_").to_uppercase()))
                .collect();
            return format!("this is {kind} without {names}: start it with {}, or record on its host", adds.join(" "));
        }
        let all: Vec<&str> = way.capabilities().iter().map(|(name, _)| *name).collect();
        // The setting permits only programs that trace nothing.
        let setting = self.unprivileged_bpf.as_ref().filter(|_| missing.contains(&BPF.0));
        let setting = setting.map(|value| format!(" (kernel.unprivileged_bpf_disabled={value} changes nothing)"));
        let setting = setting.unwrap_or_default();
        let within = self.container.map(|kind| format!("this is {kind}; ")).unwrap_or_default();
        format!(
            "{within}missing: {names}{setting}\nrun it with sudo, or once: sudo setcap {}=ep {program}",
            all.join(",")
        )
    }
}

/// The first two numbers of a version, such as `6.8.0-45-generic`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The kind of container in which this process is, as far as it shows.
fn container(root: &Path, cgroups: &str) -> Option<&'static str> {
    let has = |path: &str| root.join(path).exists();
    let told = fs::read_to_string(root.join("run/systemd/container")).unwrap_or_default();
    Some(match told.trim() {
        _ if has(".dockerenv") || cgroups.contains("/docker") => "a container of Docker",
        _ if has("run/.containerenv") || told.trim() == "podman" => "a container of Podman",
        _ if cgroups.contains("/kubepods") || has("var/run/secrets/kubernetes.io") => "a container of Kubernetes",
        "" if cgroups.contains("/lxc") => "a container of LXC",
        "" => return None,
        _ => "a container",
    })
}

/// Checks a way of recording on this machine.
pub(super) fn check(way: Way) -> CheckResult {
    let program = env::current_exe().map_or_else(|_| "mcptap".into(), |path| path.display().to_string());
    if !cfg!(all(feature = "attach", target_os = "linux", target_arch = "x86_64")) {
        return Ok((Health::Note, format!("{}: it takes Linux on x86-64, and a build with it", way.otherwise())));
    }
    Ok(Facts::read(Path::new("/")).check(way, &program))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "000001ffffffffff";

    /// A root with these files.
    fn facts(files: &[(&str, &str)]) -> Facts {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Facts::read(root.path())
    }

    /// The files of a usual machine, with these capabilities and this user.
    fn machine(capabilities: &str, user: u32) -> Vec<(&'static str, String)> {
        vec![
            ("proc/sys/kernel/osrelease", "6.8.0-45-generic\n".to_owned()),
            ("sys/kernel/btf/vmlinux", String::new()),
            ("sys/kernel/security/lockdown", "none [integrity] confidentiality\n".to_owned()),
            ("proc/sys/kernel/unprivileged_bpf_disabled", "2\n".to_owned()),
            ("proc/self/status", format!("Name:\tx\nUid:\t{user}\t{user}\t{user}\t{user}\nCapEff:\t{capabilities}\n")),
        ]
    }

    fn check(files: &[(&'static str, String)], way: Way) -> (Health, String) {
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        facts(&files).check(way, "/usr/bin/mcptap")
    }

    #[test]
    fn root_on_a_usual_machine_lacks_nothing() {
        for way in [Way::Attach, Way::KeysFrom, Way::Run] {
            assert_eq!(
                check(&machine(ALL, 0), way),
                (Health::Works, "kernel 6.8.0-45-generic, BTF, capabilities".into())
            );
        }
    }

    #[test]
    fn a_user_gets_the_line_that_grants_the_rest() {
        let (health, text) = check(&machine("0000000000000000", 1000), Way::Attach);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(health, Health::Note);
        assert_eq!(
            lines[1..],
            [
                "missing: cap_bpf, cap_perfmon, cap_sys_ptrace, cap_dac_read_search \
                 (kernel.unprivileged_bpf_disabled=2 changes nothing)",
                "run it with sudo, or once: sudo setcap \
                 cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search=ep /usr/bin/mcptap",
            ]
        );
        // As for attach, without cap_net_raw.
        let granted = format!("{:016x}", [2, 19, 38, 39].iter().fold(0u64, |set, bit| set | 1 << bit));
        assert_eq!(check(&machine(&granted, 1000), Way::Attach).0, Health::Works);
        let text = check(&machine(&granted, 1000), Way::Run).1;
        assert!(
            text.contains("\nmissing: cap_net_raw\n") && text.contains("setcap cap_bpf,cap_perfmon,cap_net_raw=ep")
        );
        assert!(check(&machine(&granted, 1000), Way::KeysFrom).1.contains("missing: cap_net_raw\n"));
    }

    #[test]
    fn an_old_or_a_locked_kernel_is_named() {
        let mut files = machine(ALL, 0);
        files[0].1 = "5.15.0-91-generic".to_owned();
        files[2].1 = "none integrity [confidentiality]".to_owned();
        files.remove(1);
        let (health, text) = check(&files, Way::Attach);
        assert_eq!(health, Health::Note);
        for words in ["the kernel is 5.15.0-91-generic: it takes 5.17", "CONFIG_DEBUG_INFO_BTF", "boot with lockdown="]
        {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert_eq!((version("5.17"), version("6.1.0-13-amd64"), version("x")), (Some((5, 17)), Some((6, 1)), None));
    }

    #[test]
    fn a_container_is_named() {
        // The default capabilities of Docker.
        let mut files = machine("00000000a80425fb", 0);
        files.push((".dockerenv", String::new()));
        let text = check(&files, Way::Run).1;
        assert!(text.contains("this is a container of Docker without cap_bpf, cap_perfmon: start it with --cap-add BPF --cap-add PERFMON"), "{text}");
        let mut files = machine(ALL, 0);
        files.push(("run/.containerenv", String::new()));
        let (health, text) = check(&files, Way::Attach);
        assert!(
            health == Health::Works && text.ends_with("in a container of Podman, only its own processes are seen"),
            "{text}"
        );
        for (path, content, kind) in [
            ("proc/1/cgroup", "0::/kubepods/pod1", "a container of Kubernetes"),
            ("proc/1/cgroup", "1:name=systemd:/lxc/a", "a container of LXC"),
            ("run/systemd/container", "systemd-nspawn\n", "a container"),
        ] {
            assert_eq!(facts(&[(path, content)]).container, Some(kind));
        }
        assert_eq!(facts(&[("proc/1/cgroup", "0::/init.scope")]).container, None);
    }
}
