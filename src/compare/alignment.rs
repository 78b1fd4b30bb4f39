//! The alignment of two lists: which items are equal, and which were replaced.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Instant;

use similar::DiffOp;
use similar::algorithms::{Capture, Compact, Replace, myers};

/// The operations that make `new` of `old`. After the deadline the alignment is coarser.
pub fn align<T: Eq + Hash>(old: &[T], new: &[T], deadline: Option<Instant>) -> Vec<DiffOp> {
    let mut numbers: HashMap<&T, usize> = HashMap::new();
    let mut number = |item| {
        let next = numbers.len();
        *numbers.entry(item).or_insert(next)
    };
    let old: Vec<usize> = old.iter().map(&mut number).collect();
    let new: Vec<usize> = new.iter().map(&mut number).collect();
    align_numbers(&old, &new, deadline)
}

/// The algorithm takes 100 KB of the program for each type of item, so it gets numbers only.
fn align_numbers(old: &[usize], new: &[usize], deadline: Option<Instant>) -> Vec<DiffOp> {
    let mut operations = Compact::new(Replace::new(Capture::new()), old, new);
    let Ok(()) = myers::diff_deadline(&mut operations, old, 0..old.len(), new, 0..new.len(), deadline);
    operations.into_inner().into_inner().into_ops()
}
