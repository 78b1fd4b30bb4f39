//! Returns memory to the system while a wrapper is idle. Wrappers are idle most of the time, and a
//! user may have twenty.

#[cfg(target_os = "linux")]
use std::{collections::HashSet, ops::Range};

/// Returns the free memory of the allocator to the system.
pub fn return_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    trim();
}

/// Releases the pages of the program's file and of its libraries: code, constants, and tables that
/// the start and unwinding need. Most were needed only at the start. The kernel has the
/// files in its page cache, once for all processes, so later accesses need no disk. But the next
/// message is delayed by about 30 µs.
pub fn release_file_pages() {
    #[cfg(target_os = "linux")]
    release_unchanged_pages();
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
fn release_unchanged_pages() {
    use rustix::mm::{Advice, madvise};

    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    for pages in unchanged(&maps) {
        let address = std::ptr::with_exposed_provenance_mut(pages.start);
        // SAFETY: these pages cannot be written, and none differs from the file. The next access
        // reads it from there again. They belong to the program or a library, which stay mapped.
        let _ = unsafe { madvise(address, pages.len(), Advice::LinuxDontNeed) };
    }
}

/// The address ranges of programs and libraries that hold what their files hold, from proc(5)
/// smaps: they cannot be written, and no page was changed before that, be it in memory or swapped
/// out. Relocation changes some constants. Files without code are left out, because a thread may
/// unmap them at any time.
#[cfg(target_os = "linux")]
fn unchanged(smaps: &str) -> Vec<Range<usize>> {
    let mut mappings: Vec<Mapping<'_>> = Vec::new();
    for line in smaps.lines() {
        if let Some(mapping) = Mapping::parse(line) {
            mappings.push(mapping);
        } else if let (Some(mapping), Some(("Anonymous" | "Swap", size))) = (mappings.last_mut(), line.split_once(':'))
        {
            mapping.unchanged_lines += usize::from(size.trim() == "0 kB");
        }
    }
    let is_code = |mapping: &&Mapping<'_>| mapping.rights == "r-xp" && mapping.path.starts_with('/');
    let programs: HashSet<&str> = mappings.iter().filter(is_code).map(|mapping| mapping.path).collect();
    mappings.retain(|mapping| {
        matches!(mapping.rights, "r-xp" | "r--p") && mapping.unchanged_lines == 2 && programs.contains(mapping.path)
    });
    mappings.into_iter().map(|mapping| mapping.pages).collect()
}

/// A range of addresses, from its first line in smaps.
#[cfg(target_os = "linux")]
struct Mapping<'m> {
    pages: Range<usize>,
    rights: &'m str,
    path: &'m str,
    /// Lines that say that no page was changed: one is about pages in memory, one about pages that
    /// were swapped out.
    unchanged_lines: usize,
}

#[cfg(target_os = "linux")]
impl Mapping<'_> {
    fn parse(line: &str) -> Option<Mapping<'_>> {
        let mut words = line.split_ascii_whitespace();
        let (addresses, rights) = (words.next()?, words.next()?);
        let (start, end) = addresses.split_once('-')?;
        let address = |hexadecimal| usize::from_str_radix(hexadecimal, 16).ok();
        let pages = address(start)?..address(end)?;
        Some(Mapping { pages, rights, path: words.nth(3).unwrap_or_default(), unchanged_lines: 0 })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_pages_that_equal_their_file_are_released() {
        let mapping = |line: &str, changed: &str, swapped: &str| {
            format!("{line}\nRss: 8 kB\nAnonymous:   {changed} kB\nSwap:   {swapped} kB\nSwapPss: 0 kB\n")
        };
        let program = "fe:00 10272777                   /usr/bin/mcptap";
        let smaps = [
            mapping(&format!("1000-3000 r--p 00000000 {program}"), "0", "0"),
            mapping(&format!("3000-5000 r-xp 00002000 {program}"), "0", "0"),
            // Constants that were relocated, and data.
            mapping(&format!("5000-6000 r--p 00004000 {program}"), "4", "0"),
            mapping(&format!("b000-c000 r--p 00008000 {program}"), "0", "4"),
            mapping(&format!("6000-7000 rw-p 00005000 {program}"), "0", "0"),
            mapping("7000-8000 r--p 00000000 fe:00 1 /usr/lib/locale/locale-archive", "0", "0"),
            mapping("8000-9000 r-xp 00000000 00:00 0 [vdso]", "0", "0"),
            mapping("9000-a000 r-xp 00000000 00:00 0", "0", "0"),
            format!("a000-b000 r--p 00007000 {program}"),
        ];
        assert_eq!(unchanged(&smaps.concat()), [0x1000..0x3000, 0x3000..0x5000]);
    }

    #[test]
    fn a_program_that_returned_memory_works_on() {
        let data = vec![7u8; 1 << 20];
        drop(vec![8u8; 64 << 20]);
        return_free_memory();
        release_file_pages();
        assert!(data.iter().all(|byte| *byte == 7));
    }
}
