//! Returns memory to the system while a wrapper is idle. Wrappers are idle most of the time, and a
//! user may have twenty.

/// Returns the free memory of the allocator to the system.
pub fn return_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    trim();
}

/// Releases the pages of the program's code. Most were needed only at the start. The kernel has the
/// file in its page cache, once for all processes, so later accesses need no disk. But the next
/// message is delayed by about 30 µs.
pub fn release_code_pages() {
    #[cfg(target_os = "linux")]
    release_pages_of_code();
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "only this call makes the allocator return memory")]
fn trim() {
    unsafe extern "C" {
        fn malloc_trim(pad: usize) -> std::ffi::c_int;
    }
    // SAFETY: any thread may call it at any time (malloc_trim(3): MT-Safe).
    unsafe { malloc_trim(0) };
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "the only way to release pages by address")]
fn release_pages_of_code() {
    use rustix::mm::{Advice, madvise};

    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for code in maps.lines().filter_map(code) {
        let address = std::ptr::with_exposed_provenance_mut(code.start);
        // SAFETY: these pages cannot be written, so they hold the content of the file. The next
        // access reads it from there again.
        let _ = unsafe { madvise(address, code.len(), Advice::LinuxDontNeed) };
    }
}

/// The address range of code in a file, from a line of proc(5) maps: pages that are executable, not
/// writable, and belong to a file.
#[cfg(target_os = "linux")]
fn code(line: &str) -> Option<std::ops::Range<usize>> {
    let mut words = line.split_ascii_whitespace();
    let (addresses, rights) = (words.next()?, words.next()?);
    let (start, end) = addresses.split_once('-')?;
    let address = |hexadecimal| usize::from_str_radix(hexadecimal, 16).ok();
    let path = words.nth(3)?;
    (rights == "r-xp" && path.starts_with('/')).then_some(address(start)?..address(end)?)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_files_is_released() {
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
    fn a_program_that_returned_memory_works_on() {
        let data = vec![7u8; 1 << 20];
        drop(vec![8u8; 64 << 20]);
        return_free_memory();
        release_code_pages();
        assert!(data.iter().all(|byte| *byte == 7));
    }
}
