//! Finds the best value of each setting, and whether the default is as good.

use serde_json::Value;

use super::Report;

/// Values closer than this differ only by the machine's noise.
const NOISE: f64 = 0.05;

/// `(system, parameter, value)` of each default that the program names.
pub fn defaults(lines: &[Value]) -> Vec<[String; 3]> {
    let fields = |line: &Value| {
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        Some([text("system")?, text("parameter")?, text("default")?])
    };
    lines.iter().filter_map(fields).collect()
}

/// Adds a note for each setting of each system.
pub fn note_best(report: &mut Report, defaults: &[[String; 3]]) {
    for [system, parameter, default] in defaults {
        let mut costs = costs(report, system, parameter);
        costs.sort_by(|(_, one), (_, other)| one.total_cmp(other));
        let (Some((best, least)), Some((_, usual))) = (costs.first(), costs.iter().find(|(value, _)| value == default))
        else {
            continue;
        };
        let verdict = if best == default {
            "the default".to_owned()
        } else if usual / least < 1.0 + NOISE {
            format!("the default {default} is as good: {usual:.0} ns")
        } else {
            format!("NOT the default {default}: {usual:.0} ns")
        };
        report.note(format!("sweep of {parameter}, {system}: best {best}, {least:.0} ns ({verdict})"));
    }
}

/// For each value of a parameter, the geometric mean of the costs of the three operations.
fn costs(report: &Report, system: &str, parameter: &str) -> Vec<(String, f64)> {
    let prefix = format!("sweep/{parameter}=");
    let mut products: Vec<(String, f64, u32)> = Vec::new();
    for series in report.series.iter().filter(|series| series.system == system) {
        let Some((value, _)) = series.case.strip_prefix(&prefix).and_then(|rest| rest.split_once('/')) else {
            continue;
        };
        match products.iter_mut().find(|(other, ..)| other == value) {
            Some((_, product, count)) => (*product, *count) = (*product * series.median(), *count + 1),
            None => products.push((value.to_owned(), series.median(), 1)),
        }
    }
    products.into_iter().map(|(value, product, count)| (value, product.powf(1.0 / f64::from(count)))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Report;
    use super::note_best;

    #[test]
    fn the_best_is_named_beside_the_default() {
        let mut report = Report::new("map", String::new(), String::new());
        for (page, ns) in [(512, 300.0), (1024, 200.0), (2048, 205.0)] {
            for operation in ["insert", "read"] {
                report.add("list", &format!("sweep/page={page}/{operation}"), "ns_per_op", "ns", ns);
            }
        }
        let default = |value: &str| ["list".to_owned(), "page".to_owned(), value.to_owned()];
        note_best(&mut report, &[default("1024"), default("2048"), default("512"), default("4096")]);
        assert_eq!(
            report.notes,
            [
                "sweep of page, list: best 1024, 200 ns (the default)",
                "sweep of page, list: best 1024, 200 ns (the default 2048 is as good: 205 ns)",
                "sweep of page, list: best 1024, 200 ns (NOT the default 512: 300 ns)",
            ]
        );
    }
}
