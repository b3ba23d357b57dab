//! The generator's model of a column: its definition, and values for it.

use rand::Rng;
use rand::rngs::StdRng;

use super::random::{chance, pick};
use super::types::{self, Family, Type};

/// Stands for VIRTUAL with Perdura and STORED with InnoDB.
pub const VIRTUAL: &str = "{VIRTUAL}";

/// How a column's value is computed.
#[derive(Clone, Debug)]
pub struct Generated {
    expression: String,
    stored: bool,
}

/// A column other than `id`.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: Type,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// How it is computed, if it is.
    pub generated: Option<Generated>,
    default: Option<String>,
    check: Option<String>,
    invisible: bool,
}

impl Column {
    /// A column of any type, perhaps computed from `others`.
    pub fn any(random: &mut StdRng, name: String, others: &[Column]) -> Self {
        if chance(random, 12) {
            return Self::computed(random, name, others);
        }
        let kind = types::any(random);
        // InnoDB refuses an UPDATE that leaves the empty value of a geometry without NULL.
        let nullable = kind.is_geometry() || chance(random, 70);
        let clock = ["TIMESTAMP(", "DATETIME("].iter().any(|start| kind.sql.starts_with(start));
        let default = match random.random_range(0..10) {
            0..2 => Some(kind.value(random)),
            2 if kind.family == Family::Exact => Some("(id % 50 + 1)".to_owned()),
            2 if kind.family == Family::Text => Some("(CONCAT('d', id % 10))".to_owned()),
            3..6 if clock => {
                let digits = kind.sql.chars().nth_back(1).unwrap_or('0');
                // No ON UPDATE: the server decides whether a row changes by the columns that the
                // engine has read.
                Some(format!("CURRENT_TIMESTAMP({digits})"))
            }
            _ => None,
        };
        let check = match kind.family {
            Family::Exact if chance(random, 15) => Some(format!("{name} IS NULL OR {name} < 90")),
            Family::Text if chance(random, 5) => Some(format!("{name} <> 'abc'")),
            _ => None,
        };
        let invisible = chance(random, 4) && (nullable || default.is_some());
        Self { name, kind, nullable, generated: None, default, check, invisible }
    }

    fn computed(random: &mut StdRng, name: String, others: &[Column]) -> Self {
        // The value of a CHAR depends on sql_mode, so the server refuses it for a stored column.
        let fits = |column: &&Column| column.generated.is_none() && !column.kind.sql.starts_with("CHAR(");
        let base: Vec<&Column> = others.iter().filter(fits).collect();
        let (sql, family, expression) = match base.is_empty() {
            false if chance(random, 70) => {
                let other = &pick(random, &base).name;
                let expression =
                    if chance(random, 50) { format!("{other} IS NULL") } else { format!("LENGTH({other})") };
                ("BIGINT", Family::Exact, expression)
            }
            _ if chance(random, 50) => ("INT", Family::Exact, "id % 10".to_owned()),
            _ => ("VARCHAR(40) CHARACTER SET utf8mb4", Family::Text, "CONCAT('#', id)".to_owned()),
        };
        let kind = types::computed(sql, family);
        let generated = Some(Generated { expression, stored: chance(random, 50) });
        Self { name, kind, nullable: true, generated, default: None, check: None, invisible: false }
    }

    /// Whether it is computed when it is read.
    pub fn is_virtual(&self) -> bool {
        self.generated.as_ref().is_some_and(|generated| !generated.stored)
    }

    /// Whether it is computed from `id`, which must not be AUTO_INCREMENT then if it is stored.
    pub fn computes_id(&self) -> bool {
        self.computes("id")
    }

    /// Whether it is computed from a column.
    pub fn computes(&self, name: &str) -> bool {
        self.generated.as_ref().is_some_and(|generated| generated.expression.contains(name))
    }

    /// Whether a key of a table may have it. Perdura refuses keys on computed columns of
    /// partitioned tables.
    pub fn fits_key(&self, partitioned: bool) -> bool {
        !(partitioned && self.is_virtual())
    }

    /// Its definition for CREATE and ALTER. InnoDB loses entries of keys on columns that it
    /// computes when it reads them, and takes NULL for their values; so there they are stored
    /// (side.rs).
    pub fn definition(&self) -> String {
        let mut text = format!("{} {}", self.name, self.kind.sql);
        if let Some(Generated { expression, stored }) = &self.generated {
            return text + &format!(" AS ({expression}) {}", if *stored { "STORED" } else { VIRTUAL });
        }
        text += if self.nullable { " NULL" } else { " NOT NULL" };
        if self.invisible {
            text += " INVISIBLE";
        }
        if let Some(default) = &self.default {
            text += &format!(" DEFAULT {default}");
        }
        if let Some(check) = &self.check {
            text += &format!(" CHECK ({check})");
        }
        text
    }

    /// A value for INSERT or UPDATE: mostly a literal.
    pub fn value(&self, random: &mut StdRng) -> String {
        if self.generated.is_some() {
            return "DEFAULT".to_owned();
        }
        match random.random_range(0..100) {
            0..8 => "DEFAULT".to_owned(),
            8..20 if self.nullable => "NULL".to_owned(),
            20 => "NULL".to_owned(),
            _ => self.kind.value(random),
        }
    }
}
