//! The capture point: the machine that captured traffic.

use std::path::Path;

/// The name of this machine.
pub fn local() -> Option<String> {
    #[cfg(unix)]
    {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Some(name).filter(|name| !name.is_empty())
    }
    #[cfg(not(unix))]
    std::env::var("COMPUTERNAME").ok().filter(|name| !name.is_empty())
}

/// The capture point that a folder `host=NAME` in the path of a capture file names.
pub fn named(path: &Path) -> Option<String> {
    let mut names = path.parent()?.iter().filter_map(|part| part.to_str()?.strip_prefix("host="));
    names.next_back().filter(|name| !name.is_empty()).map(str::to_owned)
}
