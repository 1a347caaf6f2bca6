//! What this process holds, for the benches that promise something about it.

/// Memory of this process that is its own: what it shares with the page cache is not counted.
pub fn resident_kib() -> i64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").expect("Linux");
    let dirty = text.lines().filter(|line| line.starts_with("Private_Dirty"));
    dirty.filter_map(|line| line.split_whitespace().nth(1)?.parse::<i64>().ok()).sum()
}
