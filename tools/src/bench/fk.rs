//! Foreign keys: children that come one after the other, each in a transaction of its own, to
//! parents that are there; and rows that go, or change, with those that they refer to.

use anyhow::{Result, ensure};

use super::keyed::{self, Procedure};
use super::plan::Plan;
use super::report::Report;
use super::systems::{self, Servers, System};
use crate::shared::client;

/// Rows that others refer to in the cascades, and how many refer to each.
const PARENTS: u64 = 1_000;
const CHILDREN: u64 = 100;

const INSERT: Procedure =
    Procedure { name: "refer", statement: "INSERT INTO TABLE_child (parent, a) VALUES (k, i)", found: "0" };

/// The case `insert` in a stored procedure, and a statement for each of the cascades.
pub fn run(plan: &Plan) -> Result<Report> {
    let many = plan.size(200_000, 100_000);
    let systems = systems::chosen(plan, &[System::Innodb, System::InnodbPwrite, System::Perdura]);
    let servers = Servers::start(&systems)?;
    INSERT.prepare(&servers, &systems)?;
    let workload = format!(
        "{many} INSERTs of a row with a foreign key in a stored procedure, to any of {} rows; DELETE and UPDATE of {PARENTS} rows with {CHILDREN} each that go along; no binary log",
        keyed::ROWS
    );
    let mut report = servers.report("fk", workload)?;
    systems::rounds(plan, plan.rounds(), &systems, |system| {
        insert(&servers, system, many, &mut report)?;
        cascade(&servers, system, &mut report)
    })?;
    report.keep_better("innodb", "innodb_pwrite");
    for (case, metric, limit) in
        [("insert", "us_per_op", 0.85), ("cascade", "time_s", 0.6), ("update_cascade", "time_s", 0.6)]
    {
        let ratio = report.paired("perdura", "innodb", case, metric, |own, peer| own / peer);
        report.at_most(&format!("{case}: perdura / innodb"), ratio, limit);
    }
    Ok(report)
}

fn insert(servers: &Servers, system: System, many: u64, report: &mut Report) -> Result<()> {
    let parent = keyed::table(system);
    let child = format!("{parent}_child");
    let anew = [
        format!("DROP TABLE IF EXISTS {child}"),
        format!(
            "CREATE TABLE {child} (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, parent BIGINT NOT NULL, a BIGINT NOT NULL, KEY (parent), FOREIGN KEY (parent) REFERENCES {parent} (id)) ENGINE={}",
            system.engine()
        ),
    ];
    client::execute(&mut servers.of(system).connect()?, &anew)?;
    let (mut connection, warm_up) = INSERT.session(servers, system)?;
    let took_s = systems::timed(&mut connection, &INSERT.call(system, many))?;
    let (rows, name) =
        (client::value::<u64>(&mut connection, &format!("SELECT COUNT(*) FROM {child}"))?, system.name());
    ensure!(rows == warm_up + many, "{name}: {rows} rows were inserted, not {}", warm_up + many);
    report.add(name, "insert", "us_per_op", "us", took_s * 1e6 / many as f64);
    Ok(())
}

fn cascade(servers: &Servers, system: System, report: &mut Report) -> Result<()> {
    let (name, engine) = (system.name(), system.engine());
    let (parent, child) = (format!("parents_{name}"), format!("children_{name}"));
    let mut connection = servers.of(system).connect()?;
    let anew = [
        format!("DROP TABLE IF EXISTS {child}, {parent}"),
        format!("CREATE TABLE {parent} (id BIGINT NOT NULL PRIMARY KEY, a BIGINT NOT NULL) ENGINE={engine}"),
        format!(
            "CREATE TABLE {child} (id BIGINT NOT NULL PRIMARY KEY, parent BIGINT NOT NULL, a BIGINT NOT NULL, KEY (parent), FOREIGN KEY (parent) REFERENCES {parent} (id) ON DELETE CASCADE ON UPDATE CASCADE) ENGINE={engine}"
        ),
        format!("INSERT INTO {parent} SELECT seq, 0 FROM seq_1_to_{PARENTS}"),
        format!("INSERT INTO {child} SELECT seq, seq % {PARENTS} + 1, seq FROM seq_1_to_{}", PARENTS * CHILDREN),
    ];
    client::execute(&mut connection, &anew)?;
    let moved = format!("SELECT COUNT(*) FROM {child} WHERE parent > {PARENTS}");
    let left = format!("SELECT COUNT(*) FROM {child}");
    let cases = [
        ("update_cascade", format!("UPDATE {parent} SET id = id + {PARENTS}"), &moved, PARENTS * CHILDREN),
        ("cascade", format!("DELETE FROM {parent}"), &left, 0),
    ];
    for (case, statement, count, expected) in cases {
        let took_s = systems::timed(&mut connection, &statement)?;
        let rows: u64 = client::value(&mut connection, count)?;
        ensure!(rows == expected, "{name}: after {case} there are {rows} rows, not {expected}");
        report.add(name, case, "time_s", "s", took_s);
    }
    Ok(())
}
