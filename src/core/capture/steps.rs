//! Counts the open items that are examined, so that a test can show that the cost of a message does
//! not grow with what is open. Outside of tests this is empty.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Notes that one open request, exchange or connection was examined.
#[inline(always)]
pub fn step() {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
}

/// The steps that `run` takes.
#[cfg(test)]
pub fn counted(run: impl FnOnce()) -> u64 {
    STEPS.set(0);
    run();
    STEPS.get()
}
