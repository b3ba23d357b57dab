//! The order of rooms: which of a crate's modules stand on which. This is the only place that says
//! so.

/// A crate and its storeys, top first. A storey is one or several modules of the crate's root, with
/// all that lies in their folders; its files use each other and what lies in the storeys below. The
/// root may use everything, and nothing uses it.
pub struct Order {
    pub package: &'static str,
    pub storeys: &'static [&'static str],
}

pub const ORDERS: &[Order] = &[
    Order {
        package: "perdura-engine",
        storeys: &[
            "engine",
            "status sessions activity background counters",
            "recovery",
            "txn",
            "pool",
            "changes",
            "table",
            "index",
            "space",
            "shadow",
            "files",
            "service",
            "notices random config",
            "error format",
        ],
    },
    Order { package: "xtask", storeys: &["test", "verify", "bench", "plots", "trials", "sqldiff", "drive", "shared"] },
    Order {
        package: "perdura-log",
        storeys: &[
            "recovery",
            "log",
            "reserve shrink txn",
            "copy_forward status",
            "control",
            "shared",
            "analysis create ledger prepared",
            "generation superfile",
            "need superblock",
            "config group group_commit lane_pins scan",
            "path",
            "atomic error format publication stages watermark",
        ],
    },
    Order {
        package: "perdura-map",
        storeys: &[
            "map",
            "ordered_map write",
            "scan transfer",
            "state upkeep",
            "index",
            "memory",
            "changes config",
            "error space timestamps",
        ],
    },
    Order {
        package: "perdura-kv",
        storeys: &["server", "client", "acl node sim", "command store", "machine", "entry wire", "codec config resp"],
    },
    Order { package: "perdura-capi", storeys: &["server map", "row", "barrier", "failure", "message"] },
];
