//! The consistency conditions of the specification (clause 3.3.2), and the driver's own books.

use anyhow::{Result, ensure};
use mysql::{Row, Value};
use perdura_tpcc::{CUSTOMERS, DISTRICTS, ORDERS};

use super::session::Session;

/// Rows of a violation that the error shows.
const SHOWN: usize = 3;

/// A condition: its number in the specification, and a query for what violates it.
struct Condition {
    number: u8,
    /// Whether it is checked in quick runs too. The others look at each order or customer.
    cheap: bool,
    violations: &'static str,
}

const fn condition(number: u8, cheap: bool, violations: &'static str) -> Condition {
    Condition { number, cheap, violations }
}

/// Condition 11 holds before the first transaction only, so it is left out.
const CONDITIONS: [Condition; 11] = [
    condition(
        1,
        true,
        "SELECT w_id, w_ytd, total FROM warehouse
         LEFT JOIN (SELECT d_w_id, SUM(d_ytd) AS total FROM district GROUP BY d_w_id) AS d ON d_w_id = w_id
         WHERE NOT w_ytd <=> total",
    ),
    condition(
        2,
        true,
        "SELECT d_w_id, d_id, d_next_o_id, newest, newest_new FROM district
         LEFT JOIN (SELECT o_w_id, o_d_id, MAX(o_id) AS newest FROM orders GROUP BY o_w_id, o_d_id) AS o
           ON o_w_id = d_w_id AND o_d_id = d_id
         LEFT JOIN (SELECT no_w_id, no_d_id, MAX(no_o_id) AS newest_new FROM new_order GROUP BY no_w_id, no_d_id) AS n
           ON no_w_id = d_w_id AND no_d_id = d_id
         WHERE NOT d_next_o_id - 1 <=> newest OR newest_new <> newest",
    ),
    condition(
        3,
        true,
        "SELECT no_w_id, no_d_id, MIN(no_o_id), MAX(no_o_id), COUNT(*) FROM new_order GROUP BY no_w_id, no_d_id
         HAVING MAX(no_o_id) - MIN(no_o_id) + 1 <> COUNT(*)",
    ),
    condition(
        4,
        true,
        "SELECT o_w_id, o_d_id, expected, found FROM
         (SELECT o_w_id, o_d_id, SUM(o_ol_cnt) AS expected FROM orders GROUP BY o_w_id, o_d_id) AS o
         LEFT JOIN (SELECT ol_w_id, ol_d_id, COUNT(*) AS found FROM order_line GROUP BY ol_w_id, ol_d_id) AS l
           ON ol_w_id = o_w_id AND ol_d_id = o_d_id
         WHERE NOT expected <=> found",
    ),
    condition(
        5,
        true,
        "SELECT o_w_id, o_d_id, o_id, o_carrier_id, no_o_id FROM orders
         LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
         WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)",
    ),
    condition(
        6,
        false,
        "SELECT o_w_id, o_d_id, o_id, o_ol_cnt, found FROM orders
         LEFT JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, COUNT(*) AS found FROM order_line
                    GROUP BY ol_w_id, ol_d_id, ol_o_id) AS l
           ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
         WHERE NOT o_ol_cnt <=> found",
    ),
    condition(
        7,
        false,
        "SELECT ol_w_id, ol_d_id, ol_o_id, ol_number, ol_delivery_d, o_carrier_id FROM order_line
         LEFT JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
         WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
    ),
    condition(
        8,
        true,
        "SELECT w_id, w_ytd, total FROM warehouse
         LEFT JOIN (SELECT h_w_id, SUM(h_amount) AS total FROM history GROUP BY h_w_id) AS h ON h_w_id = w_id
         WHERE NOT w_ytd <=> total",
    ),
    condition(
        9,
        true,
        "SELECT d_w_id, d_id, d_ytd, total FROM district
         LEFT JOIN (SELECT h_w_id, h_d_id, SUM(h_amount) AS total FROM history GROUP BY h_w_id, h_d_id) AS h
           ON h_w_id = d_w_id AND h_d_id = d_id
         WHERE NOT d_ytd <=> total",
    ),
    condition(
        10,
        false,
        "SELECT c_w_id, c_d_id, c_id, c_balance, paid, delivered FROM customer
         LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, SUM(h_amount) AS paid FROM history
                    GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS h
           ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
         LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, SUM(ol_amount) AS delivered FROM orders
                    JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
                    WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS d
           ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
         WHERE c_balance <> COALESCE(delivered, 0) - COALESCE(paid, 0)",
    ),
    condition(
        12,
        false,
        "SELECT c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, delivered FROM customer
         LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, SUM(ol_amount) AS delivered FROM orders
                    JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
                    WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS d
           ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
         WHERE c_balance + c_ytd_payment <> COALESCE(delivered, 0)",
    ),
];

/// Everything that was acknowledged since the tables were loaded.
#[derive(Clone, Copy, Default)]
pub struct Books {
    /// New-Orders committed.
    pub orders: u64,
    /// Payments committed.
    pub payments: u64,
}

/// Fails if a condition is violated, or if the tables have other orders or payments than were
/// acknowledged.
pub fn check(session: &mut Session, warehouses: u32, books: Books, quick: bool) -> Result<()> {
    for condition in CONDITIONS.iter().filter(|condition| condition.cheap || !quick) {
        let violations: Vec<Row> = session.rows(&format!("{} LIMIT 100", condition.violations), ())?;
        let shown: Vec<String> = violations.iter().take(SHOWN).map(show).collect();
        ensure!(
            violations.is_empty(),
            "TPC-C's consistency condition {} is violated, in {} rows or more: {}",
            condition.number,
            violations.len(),
            shown.join("; ")
        );
    }
    let districts = u64::from(warehouses) * u64::from(DISTRICTS);
    let expected = [
        ("orders", districts * u64::from(ORDERS) + books.orders),
        ("history", districts * u64::from(CUSTOMERS) + books.payments),
    ];
    for (table, expected) in expected {
        let found: u64 = session.row(&format!("SELECT COUNT(*) FROM {table}"), ())?;
        ensure!(found == expected, "{table} has {found} rows; {expected} were acknowledged");
    }
    Ok(())
}

fn show(row: &Row) -> String {
    let column = |index| row.as_ref(index).unwrap_or(&Value::NULL).as_sql(false);
    row.columns_ref()
        .iter()
        .enumerate()
        .map(|(index, name)| format!("{}={}", name.name_str(), column(index)))
        .collect::<Vec<_>>()
        .join(" ")
}
