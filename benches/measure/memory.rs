//! Measures the memory of this process, for benches with memory budgets.

/// Private memory of this process: shared pages of the page cache are not counted.
pub fn resident_kib() -> i64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").expect("Linux");
    let dirty = text.lines().filter(|line| line.starts_with("Private_Dirty"));
    dirty.filter_map(|line| line.split_whitespace().nth(1)?.parse::<i64>().ok()).sum()
}
