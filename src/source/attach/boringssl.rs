//! Finds the function of BoringSSL that logs secrets, in a program without symbols.
//!
//! It is called wherever a secret is made, even if nobody asked for a key log. One argument is the
//! label of the key log, so code loads the address of a label and calls it soon afterwards:
//!
//! ```text
//!   lea rsi, [rip + "CLIENT_TRAFFIC_SECRET_0"]     48 8d 35 ....
//!   ...                                            or, in a program with fixed addresses:
//!   mov esi, "CLIENT_TRAFFIC_SECRET_0"             be ....
//!   ...
//!   call ssl_log_secret                            e8 ....    or, as the last act of a function:
//!   jmp ssl_log_secret                             e9 ....
//! ```
//!
//! All labels have to agree on one function. So a wrong one is not found by chance.

use std::collections::{BTreeSet, HashMap};

use memchr::{memchr_iter, memmem};

/// The labels of the key log, of TLS 1.2 and 1.3.
const LABELS: [&str; 6] = [
    "CLIENT_RANDOM",
    "CLIENT_EARLY_TRAFFIC_SECRET",
    "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
    "SERVER_HANDSHAKE_TRAFFIC_SECRET",
    "CLIENT_TRAFFIC_SECRET_0",
    "SERVER_TRAFFIC_SECRET_0",
];

/// Bytes after the address of a label within which the call is. The other arguments are loaded
/// between the two instructions.
const NEAR: usize = 64;

/// Parts of a file that are read. Programs have about a dozen.
const PARTS: usize = 64;

/// A part of the file that is loaded.
#[derive(Clone, Copy, Debug)]
struct LoadedPart {
    offset: u64,
    address: u64,
    length: u64,
    executable: bool,
}

/// The offset in the file of the function on which all labels agree.
pub(super) fn log_secret(file: &[u8]) -> Option<u64> {
    let segments = segments(file)?;
    let address = |offset: u64| {
        let of = segments.iter().find(|segment| (segment.offset..segment.offset + segment.length).contains(&offset))?;
        Some(offset - of.offset + of.address)
    };
    let mut labels: HashMap<u64, usize> = HashMap::new();
    for (index, label) in LABELS.iter().enumerate() {
        // A text of its own, not the end of another one.
        let text = [b"\0", label.as_bytes(), b"\0"].concat();
        labels.extend(memmem::find_iter(file, &text).filter_map(|at| Some((address(at as u64 + 1)?, index))));
    }
    let mut called: [BTreeSet<u64>; 6] = Default::default();
    for segment in segments.iter().filter(|segment| segment.executable) {
        let code = file.get(segment.offset as usize..(segment.offset + segment.length) as usize)?;
        for (end, label) in references(code, segment.address, &labels) {
            let near = end..(end + NEAR).min(code.len());
            let calls = near.filter(|call| matches!(code[*call], 0xe8 | 0xe9));
            called[label].extend(calls.filter_map(|call| relative(code, call + 1, segment.address)));
        }
    }
    let is_code = |target: &u64| {
        segments
            .iter()
            .any(|segment| segment.executable && (segment.address..segment.address + segment.length).contains(target))
    };
    let common = called.iter().skip(1).fold(called[0].clone(), |common, of| &common & of);
    let mut common = common.into_iter().filter(is_code);
    let (only, None) = (common.next()?, common.next()) else { return None };
    segments
        .iter()
        .find(|segment| (segment.address..segment.address + segment.length).contains(&only))
        .map(|segment| only - segment.address + segment.offset)
}

/// The instructions that load the address of a label: the offset after each, and the label.
fn references(code: &[u8], address: u64, labels: &HashMap<u64, usize>) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for at in memchr_iter(0x8d, code) {
        // lea with a 64-bit register and an address relative to the next instruction.
        let is_lea =
            at > 0 && matches!(code[at - 1], 0x48 | 0x4c) && code.get(at + 1).is_some_and(|mode| mode & 0xc7 == 5);
        let target = is_lea.then(|| relative(code, at + 2, address)).flatten();
        found.extend(target.and_then(|target| Some((at + 6, *labels.get(&target)?))));
    }
    for (place, label) in labels {
        // mov with a 32-bit register and the address itself.
        let Ok(place) = u32::try_from(*place) else { continue };
        let is_mov = |at: &usize| *at > 0 && matches!(code[at - 1], 0xb8..=0xbf);
        let bytes = place.to_le_bytes();
        let places = memmem::find_iter(code, &bytes).filter(is_mov).map(|at| (at + 4, *label));
        found.extend(places);
    }
    found
}

/// The address that four bytes of code at `at` refer to, relative to the byte after them.
fn relative(code: &[u8], at: usize, address: u64) -> Option<u64> {
    let distance = i32::from_le_bytes(code.get(at..at + 4)?.try_into().ok()?);
    Some((address + at as u64 + 4).wrapping_add_signed(distance.into()))
}

/// The loaded parts of an ELF file for x86-64 (elf(5)); `None` for another file.
fn segments(file: &[u8]) -> Option<Vec<LoadedPart>> {
    let half = |at: usize| Some(u16::from_le_bytes(file.get(at..at + 2)?.try_into().ok()?));
    let word = |at: usize| Some(u64::from_le_bytes(file.get(at..at.checked_add(8)?)?.try_into().ok()?));
    if !file.starts_with(b"\x7fELF\x02\x01") || half(18)? != 62 {
        return None;
    }
    let (table, size, count) = (word(32)? as usize, usize::from(half(54)?), usize::from(half(56)?));
    let mut segments = Vec::new();
    for at in (0..count.min(PARTS)).map(|index| table.saturating_add(index * size)) {
        let (kind, flags) = (word(at)? as u32, (word(at)? >> 32) as u32);
        let segment = LoadedPart {
            offset: word(at.checked_add(8)?)?,
            address: word(at.checked_add(16)?)?,
            length: word(at.checked_add(32)?)?,
            executable: flags & 1 != 0,
        };
        // PT_LOAD, inside the file.
        let end = segment.offset.checked_add(segment.length)?;
        if kind == 1 && end <= file.len() as u64 && segment.address.checked_add(segment.length).is_some() {
            segments.push(segment);
        }
    }
    Some(segments)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: usize = 0x200;
    const CODE: usize = 0x1000;
    const BASE: u64 = 0x40_0000;

    /// A program whose labels lead to these functions: by relative addresses and calls, or by
    /// fixed addresses and jumps.
    fn program(functions: [u64; 6], is_fixed: bool) -> Vec<u8> {
        let mut file = vec![0; 0x2000];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[18] = 62;
        file[32] = 64;
        file[54] = 56;
        file[56] = 2;
        for (index, (offset, flags)) in [(0, 4), (CODE, 5)].into_iter().enumerate() {
            let at = 64 + 56 * index;
            file[at] = 1;
            file[at + 4] = flags;
            file[at + 8..at + 16].copy_from_slice(&(offset as u64).to_le_bytes());
            file[at + 16..at + 24].copy_from_slice(&(BASE + offset as u64).to_le_bytes());
            file[at + 32..at + 40].copy_from_slice(&0x1000u64.to_le_bytes());
        }
        let mut text = TEXT;
        for (index, (label, function)) in LABELS.iter().zip(functions).enumerate() {
            let (place, code) = (text + 1, CODE + 0x40 * index);
            file[place..place + label.len()].copy_from_slice(label.as_bytes());
            text += label.len() + 2;
            if is_fixed {
                file[code + 2] = 0xbe;
                file[code + 3..code + 7].copy_from_slice(&(BASE as u32 + place as u32).to_le_bytes());
            } else {
                file[code..code + 3].copy_from_slice(b"\x48\x8d\x35");
                file[code + 3..code + 7].copy_from_slice(&(place as i32 - (code as i32 + 7)).to_le_bytes());
            }
            // Something between them, then another call that is not common to all.
            file[code + 7..code + 10].copy_from_slice(b"\x48\x89\xdf");
            file[code + 10] = if is_fixed { 0xe9 } else { 0xe8 };
            file[code + 11..code + 15].copy_from_slice(&(function as i32 - (code as i32 + 15)).to_le_bytes());
            file[code + 15] = 0xe8;
            file[code + 16..code + 20].copy_from_slice(&(0x1800 + index as i32 - (code as i32 + 20)).to_le_bytes());
        }
        file
    }

    #[test]
    fn the_function_that_all_labels_call_is_found() {
        assert_eq!(log_secret(&program([0x1c00; 6], false)), Some(0x1c00));
        assert_eq!(log_secret(&program([0x1c00; 6], true)), Some(0x1c00));
    }

    #[test]
    fn labels_that_do_not_agree_find_nothing() {
        assert_eq!(log_secret(&program([0x1c00, 0x1c00, 0x1c00, 0x1c00, 0x1c00, 0x1d00], false)), None);
        assert_eq!(log_secret(b"\x7fELF\x02\x01"), None);
        let mut far = program([0x1c00; 6], false);
        far[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(log_secret(&far), None, "the table is beyond the address space");
        let whole = program([0x1c00; 6], false);
        for length in (0..whole.len()).step_by(61) {
            assert_eq!(log_secret(&whole[..length]), None, "cut to {length}");
        }
    }
}
