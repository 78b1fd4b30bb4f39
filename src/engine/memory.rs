//! Memory that is given back while there is nothing to do: wrappers rest most of the time, and there may be twenty.

/// Gives back what is free of the memory that the allocator holds.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    trim();
}

/// Lets go of the program's code: most of what was needed up to now, only its start did. The rest is found again without reading the disk, for the
/// kernel keeps it, once for all who run it; but the next message is some 30 µs later for it.
pub fn let_go_of_start() {
    #[cfg(target_os = "linux")]
    let_go_of_code();
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)] // The only way to ask the allocator.
fn trim() {
    unsafe extern "C" {
        fn malloc_trim(pad: usize) -> std::ffi::c_int;
    }
    // SAFETY: any thread may call it at any time (malloc_trim(3): MT-Safe).
    unsafe { malloc_trim(0) };
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)] // Pages of the program are let go by their address.
fn let_go_of_code() {
    use rustix::mm::{Advice, madvise};

    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for code in maps.lines().filter_map(code) {
        let address = std::ptr::with_exposed_provenance_mut(code.start);
        // SAFETY: nothing ever wrote to these pages, which nobody may: what they hold is in the file, from which the next access takes it.
        let _ = unsafe { madvise(address, code.len(), Advice::LinuxDontNeed) };
    }
}

/// The place of a file's code, from a line of proc(5) maps: its pages are executable, cannot be written, and belong to a file.
#[cfg(target_os = "linux")]
fn code(line: &str) -> Option<std::ops::Range<usize>> {
    let mut words = line.split_ascii_whitespace();
    let (place, rights) = (words.next()?, words.next()?);
    let (start, end) = place.split_once('-')?;
    let address = |hexadecimal| usize::from_str_radix(hexadecimal, 16).ok();
    let path = words.nth(3)?;
    (rights == "r-xp" && path.starts_with('/')).then_some(address(start)?..address(end)?)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_the_code_of_files_is_let_go() {
        let path = "fe:00 10272777                   /usr/bin/mcptap";
        assert_eq!(code(&format!("1000-3000 r-xp 00000000 {path}")), Some(0x1000..0x3000));
        for line in [
            &format!("1000-3000 r--p 00000000 {path}"),
            &format!("1000-3000 rwxp 00000000 {path}"),
            "7ffc1-7ffc3 r-xp 00000000 00:00 0                          [vdso]",
            "1000-3000 r-xp 00000000 00:00 0",
            "",
        ] {
            assert_eq!(code(line), None, "{line}");
        }
    }

    #[test]
    fn a_program_that_gave_back_its_memory_goes_on() {
        let kept = vec![7u8; 1 << 20];
        drop(vec![8u8; 64 << 20]);
        give_back();
        let_go_of_start();
        assert!(kept.iter().all(|byte| *byte == 7));
    }
}
