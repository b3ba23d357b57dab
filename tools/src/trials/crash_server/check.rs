//! After a restart: compares the database with what the oracle allows, and settles open outcomes by
//! what is found.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use mysql::Conn;
use mysql::prelude::Queryable;

use super::contest::{Rows, Version, explain};
use super::model::{ACCOUNTS, AMOUNT_AT_START, InFlight, Place, Row, State, Transfer, body, contested};
use super::sequences;
use super::worker::Worker;
use crate::shared::indexes;

/// Checks everything and brings the workers' books up to date. Returns one line for each broken
/// promise. `base` holds the contested rows as they were found last time.
pub fn check(connection: &mut Conn, workers: &mut [Worker], base: &mut Rows) -> Result<Vec<String>> {
    let mut violations = Vec::new();
    settle_prepared(connection, workers, &mut violations)?;
    let tables = tables(connection)?;
    let decided = contested_rows(connection, workers, base, &mut violations)?;
    for (worker, decided) in workers.iter_mut().zip(decided) {
        match observe(connection, worker.number, &tables) {
            Ok(found) => settle(worker, found, decided, &mut violations),
            Err(error) => violations.push(format!("client {}: {error:#}", worker.number)),
        }
    }
    let expected: usize =
        workers.iter().map(|worker| worker.state.tables.len() + 1).sum::<usize>() + 5 + sequences::COUNT;
    if violations.is_empty() && tables.len() != expected {
        violations.push(format!("{} tables found, {expected} expected: {:?}", tables.len(), tables.keys()));
    }
    if let Err(error) = accounts(connection, workers) {
        violations.push(format!("{error:#}"));
    }
    repeated_numbers(workers, &mut violations);
    sequences::check(workers.iter_mut().map(|worker| &mut worker.values), &mut violations);
    violations.extend(indexes::check(connection)?);
    Ok(violations)
}

/// Checks that no value of AUTO_INCREMENT was given twice, whether or not its transaction came
/// through.
fn repeated_numbers(workers: &[Worker], violations: &mut Vec<String>) {
    let mut seen = BTreeMap::new();
    for worker in workers {
        for &number in &worker.numbers {
            if let Some(other) = seen.insert(number, worker.number) {
                violations.push(format!("AUTO_INCREMENT gave {number} to client {} and client {other}", worker.number));
            }
        }
    }
}

/// Settles two-phase transactions. One that must be prepared must be listed and is committed now;
/// one that is not listed was decided before the crash.
fn settle_prepared(connection: &mut Conn, workers: &mut [Worker], violations: &mut Vec<String>) -> Result<()> {
    let listed: Vec<(u64, u64, u64, String)> = connection.query("XA RECOVER")?;
    let mut listed: Vec<String> = listed.into_iter().map(|(.., name)| name).collect();
    for worker in workers {
        let InFlight::Xa { name, changes, must_be_prepared, may_be_committed } = worker.in_flight.clone() else {
            continue;
        };
        let found = listed.iter().position(|other| *other == name);
        worker.in_flight = match found {
            Some(index) => {
                listed.swap_remove(index);
                connection.query_drop(format!("XA COMMIT '{name}'")).with_context(|| format!("XA COMMIT '{name}'"))?;
                worker.apply(&changes);
                InFlight::Nothing
            }
            None if must_be_prepared => {
                violations.push(format!("client {}: prepared transaction {name} is lost", worker.number));
                InFlight::Nothing
            }
            None if may_be_committed => InFlight::Commit(changes),
            None => InFlight::Nothing,
        };
    }
    for name in listed {
        violations.push(format!("a prepared transaction {name} that nobody has open"));
    }
    Ok(())
}

/// Checks the contested rows. Returns for each client's open transaction whether they show it, if
/// it wrote any.
fn contested_rows(
    connection: &mut Conn,
    workers: &mut [Worker],
    base: &mut Rows,
    violations: &mut Vec<String>,
) -> Result<Vec<Option<bool>>> {
    let mut found = Rows::new();
    let rows: Vec<(u64, u64, u64, String)> = connection.query("SELECT id, version, writer, body FROM contested")?;
    for (id, number, writer, text) in rows {
        if text != body(0, id, Row { v: writer as i64, n: 0 }) {
            violations.push(format!("contested row {id}, version {number}: a body of another version"));
        }
        if found.insert(id, Version { id, number, writer }).is_some() {
            violations.push(format!("contested row {id} is there twice"));
        }
    }
    let mut acknowledged = Vec::new();
    let mut seen = BTreeSet::new();
    let (mut open, mut owners) = (Vec::new(), Vec::new());
    for (index, worker) in workers.iter_mut().enumerate() {
        acknowledged.append(&mut worker.contested);
        seen.append(&mut worker.seen);
        if let InFlight::Commit(changes) = &worker.in_flight {
            let writes = contested(changes);
            if !writes.is_empty() {
                open.push(writes);
                owners.push(index);
            }
        }
    }
    let mut decided = vec![None; workers.len()];
    match explain(base, &acknowledged, &open, &seen, &found) {
        Ok(chosen) => owners.into_iter().zip(chosen).for_each(|(owner, there)| decided[owner] = Some(there)),
        Err(what) => violations.push(what),
    }
    *base = found;
    Ok(decided)
}

/// Checks that the state is the acknowledged one, or that with the whole transaction in flight. The
/// contested rows may have decided which of the two.
fn settle(worker: &mut Worker, found: State, decided: Option<bool>, violations: &mut Vec<String>) {
    if found == worker.state && decided != Some(true) {
        worker.in_flight = InFlight::Nothing;
        return;
    }
    let open = std::mem::take(&mut worker.in_flight);
    if let InFlight::Commit(changes) = &open {
        let with = worker.state.with(changes);
        if found == with && decided != Some(false) {
            worker.state = with;
            return;
        }
        let difference = with.difference(&found);
        violations
            .push(format!("client {}: not the state with the open transaction either: {difference}", worker.number));
    }
    violations.push(format!("client {}: {} (open: {open:?})", worker.number, worker.state.difference(&found)));
    worker.state = found;
}

fn tables(connection: &mut Conn) -> Result<BTreeMap<String, ()>> {
    let names: Vec<String> = connection.query("SHOW TABLES")?;
    Ok(names.into_iter().map(|name| (name, ())).collect())
}

/// Reads the state of one client from the database. Fails if a row's body does not follow from its
/// columns.
fn observe(connection: &mut Conn, client: usize, tables: &BTreeMap<String, ()>) -> Result<State> {
    let mut state = State::default();
    for (place, table) in [(Place::Own, format!("own_{client}")), (Place::Shared, "shared".to_owned())] {
        let query = format!("SELECT id, v, n, body FROM {table} WHERE client = {client}");
        let rows: Vec<(u64, i64, i64, String)> = connection.query(&query).context(query)?;
        for (id, v, n, text) in rows {
            let row = Row { v, n };
            ensure!(
                text == body(client, id, row),
                "{table}: row {id} {row:?} has another row's body, {} bytes",
                text.len()
            );
            ensure!(state.rows_mut(place).insert(id, row).is_none(), "{table}: row {id} is there twice");
        }
    }
    let query = format!("SELECT id, source, target, amount FROM ledger WHERE client = {client}");
    let lines: Vec<(u64, u32, u32, i64)> = connection.query(&query).context(query)?;
    for (id, from, to, amount) in lines {
        let earlier = state.transfers.insert(id, Transfer { from, to, amount });
        ensure!(earlier.is_none(), "ledger: line {id} is there twice");
    }
    let query = format!("SELECT number, tag FROM numbers WHERE client = {client}");
    let rows: Vec<(u64, u64)> = connection.query(&query).context(query)?;
    for (number, tag) in rows {
        ensure!(state.numbers.insert(number, tag).is_none(), "numbers: {number} is there twice");
    }
    let mine = format!("made_{client}_");
    for name in tables.keys().filter(|name| name.starts_with(&mine)) {
        let query = format!("SELECT COUNT(*), CAST(COALESCE(SUM(id), 0) AS UNSIGNED) FROM {name}");
        let (rows, sum): (u64, u64) = connection.query_first(&query).context(query)?.context("no row")?;
        ensure!(sum == rows * rows.saturating_sub(1) / 2, "{name}: {rows} rows, but their ids sum up to {sum}");
        state.tables.insert(name.clone(), rows);
    }
    Ok(state)
}

/// Checks that every account holds its initial money and the sum of its ledger lines. The books are
/// settled by now.
fn accounts(connection: &mut Conn, workers: &[Worker]) -> Result<()> {
    let mut expected: BTreeMap<u32, i64> = (0..ACCOUNTS).map(|id| (id, AMOUNT_AT_START)).collect();
    for transfer in workers.iter().flat_map(|worker| worker.state.transfers.values()) {
        *expected.entry(transfer.from).or_default() -= transfer.amount;
        *expected.entry(transfer.to).or_default() += transfer.amount;
    }
    let found: Vec<(u32, i64)> = connection.query("SELECT id, amount FROM accounts")?;
    ensure!(found.len() == expected.len(), "{} accounts found, {} expected", found.len(), expected.len());
    for (id, amount) in found {
        if expected.get(&id) != Some(&amount) {
            bail!("account {id} holds {amount}, the ledger says {:?}", expected.get(&id));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::model::{Change, InFlight, Place, Row, State};
    use super::super::worker::Worker;
    use super::settle;

    const FIRST: Change = Change::Put(Place::Own, 1, Row { v: 1, n: 0 });
    const SECOND: Change = Change::Put(Place::Shared, 2, Row { v: 2, n: 0 });

    fn violations(acknowledged: &[Change], open: InFlight, found: &[Change]) -> usize {
        let mut worker = Worker::new(0, 1, "any");
        worker.state.apply(acknowledged);
        worker.in_flight = open;
        let mut violations = Vec::new();
        settle(&mut worker, State::default().with(found), None, &mut violations);
        violations.len()
    }

    #[test]
    fn a_transaction_whose_contested_rows_are_there_is_there_with_all_its_rows() {
        let settled = |decided, found: &[Change]| {
            let mut worker = Worker::new(0, 1, "any");
            worker.in_flight = InFlight::Commit(vec![FIRST]);
            let mut violations = Vec::new();
            settle(&mut worker, State::default().with(found), Some(decided), &mut violations);
            violations.len()
        };
        assert_eq!(settled(true, &[FIRST]), 0);
        assert_eq!(settled(false, &[]), 0);
        assert_ne!(settled(true, &[]), 0);
        assert_ne!(settled(false, &[FIRST]), 0);
    }

    #[test]
    fn an_open_transaction_may_be_there_whole_or_not_at_all() {
        let open = || InFlight::Commit(vec![FIRST, SECOND]);
        assert_eq!(violations(&[], open(), &[]), 0);
        assert_eq!(violations(&[], open(), &[FIRST, SECOND]), 0);
        assert_ne!(violations(&[], open(), &[FIRST]), 0);
    }

    #[test]
    fn a_lost_acknowledged_transaction_is_noticed() {
        assert_eq!(violations(&[FIRST], InFlight::Nothing, &[FIRST]), 0);
        assert_ne!(violations(&[FIRST], InFlight::Nothing, &[]), 0);
        assert_ne!(violations(&[FIRST], InFlight::Commit(vec![SECOND]), &[SECOND]), 0);
    }

    #[test]
    fn a_rolled_back_transaction_that_is_there_is_noticed() {
        assert_ne!(violations(&[], InFlight::Nothing, &[FIRST]), 0);
    }
}
