//! The figures that papers state as numbers, each with its place. What they only draw is not here:
//! nobody can read it off exactly.

/// Matsuura, "Designing a persistent-memory-native storage engine for SQL database systems", NVMSA
/// 2021. Two sockets with 104 threads, Optane in AppDirect mode, 96 loaders of 1,000,000 rows each.
pub const ENGINE: &str = "Matsuura, NVMSA 2021";
/// Zguem, "NF-log: Revisiting log writes in relational database for efficient persistent memory
/// utilization", Seoul National University, 2022. Two sockets, two modules of Optane.
pub const THESIS: &str = "NF-log thesis, Seoul 2022";

/// Loaders of all loads of [`ENGINE`] (VI-A, Fig. 3).
pub const LOADERS: f64 = 96.0;
/// Loading time without pre-fault, in times of that with it (VI-B, Table II).
pub const WITHOUT_PREFAULT: f64 = 5.86;
/// Loading time by the number of parallel log writes, in times of that with 4 (VI-C, Table III).
pub const LANES: [(f64, f64); 7] =
    [(1.0, 1.31), (2.0, 1.06), (4.0, 1.00), (8.0, 1.17), (10.0, 1.18), (12.0, 1.05), (16.0, 1.28)];
/// Loading time of InnoDB on persistent memory, in times of the paper's engine (VI-D, Table IV).
pub const INNODB: f64 = 58.29;

/// Bytes of the writes of the thesis's micro-benchmark, as their cases are named here (1.1, p. 4).
pub const WRITE_SIZES: [&str; 5] = ["64B", "512B", "1KiB", "4KiB", "32KiB"];
/// Its threads: one to thirty-two (1.1, p. 4).
pub const WRITE_THREADS: [f64; 6] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
/// Threads at which Optane saturates, about, with small sequential writes (1.1, p. 4).
pub const SATURATED_THREADS: f64 = 8.0;
/// Most that one module of Optane writes, in GB/s (1.3.2, p. 11).
pub const OPTANE_WRITES_GB: f64 = 2.3;
/// Most that DRAM writes, in GB/s; four threads reach it (1.3.2, p. 11).
pub const DRAM_WRITES_GB: f64 = 13.9;
/// Least and most time of a load from Optane, in times of one from DRAM (chapter 1, p. 1).
pub const OPTANE_READ: (f64, f64) = (2.0, 3.7);
/// Bandwidth of stores to DRAM, in times of that to Optane (chapter 1, p. 1).
pub const DRAM_STORES: f64 = 6.0;
/// Time of reads of a database on the other socket's memory, in times of those on the own one's:
/// slower by 53% (1.3.2 "Data locality", Fig. 1.4, p. 15).
pub const REMOTE_READS: f64 = 1.53;
/// The same of writes: slower by 104%.
pub const REMOTE_WRITES: f64 = 2.04;
/// Bytes that Optane reads and writes at a time (1.3.2, p. 11; 2.5, p. 28).
pub const OPTANE_UNIT_BYTES: u64 = 256;

/// Transactions a second of write_only by threads, in times of InnoDB's own way to the log, for
/// each part of NF-log (3.2, figures 3.1 to 3.3) and for all of them (3.3, Fig. 3.4).
pub const LOG_PATHS: [(&str, &[(f64, f64)]); 4] = [
    ("persist", &[(4.0, 1.38), (32.0, 1.13)]),
    ("wa512", &[(32.0, 1.093)]),
    ("local", &[(4.0, 1.318), (8.0, 1.325), (32.0, 1.04)]),
    ("nf", &[(8.0, 1.65)]),
];
/// Bytes that NF-log writes to the medium, in times of InnoDB's (3.5, Fig. 3.13).
pub const LOG_BYTES: f64 = 0.7;

/// Surin, thesis on consensus by persistent memory, MIPT 2020. Optane DC, 50,000 keys, keys and
/// values of about 10 B; a persist takes 1 us at least (4.2).
pub const CONSENSUS: &str = "Surin's thesis, MIPT 2020";
/// Its stores, in the order of the figures below.
pub const STORES: [&str; 3] = ["WAL", "list", "B+-tree"];
/// Median latency of a client alone, on one machine and on several (4.1).
pub const ONE_CLIENT_US: [[f64; 3]; 2] = [[150.0, 100.0, 120.0], [257.0, 230.0, 250.0]];
/// Median latency of each of twenty (4.1).
pub const TWENTY_CLIENTS_US: [[f64; 3]; 2] = [[560.0, 412.0, 480.0], [720.0, 610.0, 700.0]];
/// Latency of each of twenty that nine in ten do not exceed (4.1).
pub const TWENTY_CLIENTS_P90_US: [[f64; 3]; 2] = [[800.0, 650.0, 780.0], [1120.0, 800.0, 1020.0]];
/// Time until a replica has caught up that was off for 15,000 writes of some KB (4.1).
pub const CATCH_UP_MS: [f64; 3] = [600.0, 100.0, 350.0];
/// Time of a start with a database of that size (4.1).
pub const START_MS: [f64; 3] = [200.0, 40.0, 20.0];
/// Operations of its structures (4.2).
pub const OPERATIONS: [&str; 3] = ["insert", "read", "delete"];
/// Their mean times with pmemkv's cmap, stree and tree3, the list and the B+-tree: 20,000 keys of
/// 10 B, persisted after each tenth change (4.2).
pub const STRUCTURES_NS: [[f64; 3]; 5] = [
    [9397.0, 1767.0, 6201.0],
    [4192.0, 389.0, 1740.0],
    [4958.0, 319.0, 2857.0],
    [884.0, 340.0, 612.0],
    [3097.0, 500.0, 3839.0],
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The list is the fastest of the stores in all that the thesis measures but the start, and
    /// other machines and more clients make all slower: a slip of the pen would show.
    #[test]
    fn the_theses_tables_are_in_their_order() {
        let tables = [ONE_CLIENT_US, TWENTY_CLIENTS_US, TWENTY_CLIENTS_P90_US];
        assert!(tables.iter().flatten().all(|[wal, list, btree]| list < btree && btree < wal));
        assert!(tables.iter().all(|[near, far]| near.iter().zip(far).all(|(near, far)| near < far)));
        assert!(tables.windows(2).all(|pair| (0..3).all(|store| pair[0][0][store] < pair[1][0][store])));
        assert!(STRUCTURES_NS.iter().all(|[insert, read, delete]| read < insert && read < delete));
    }

    /// A slip of the pen would move the whole curve: it is relative to the one at 4 lanes.
    #[test]
    fn the_papers_times_are_relative_to_four_lanes() {
        let at_one: Vec<f64> = LANES.iter().filter(|(_, time)| *time == 1.0).map(|(lanes, _)| *lanes).collect();
        assert_eq!(at_one, [4.0]);
        assert!(LANES.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
