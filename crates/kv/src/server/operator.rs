//! Endpoints for operators by HTTP: /metrics, /live, /health, /ready, /state, and a page that draws
//! it.

use serde::Serialize;

use super::admin::State;
use super::histogram::{BUCKETS, Histogram, INTERVAL_S, Interval, bound_us};
use super::http::Response;

/// The page. It needs no other file.
const PAGE: &str = include_str!("page.html");
const ICON: &str = include_str!("icon.svg");

#[derive(Serialize)]
struct Latency {
    bounds_us: Vec<u64>,
    intervals: Vec<Interval>,
    interval_s: u64,
    now_s: u64,
}

#[derive(Serialize)]
struct Everything<'a> {
    state: &'a State,
    latency: Latency,
}

/// The answer to a path. `metrics` makes the numbers for Prometheus.
pub(super) fn answer(path: &str, state: &State, latency: &Histogram, metrics: impl FnOnce() -> String) -> Response {
    match path {
        "/" => Response { status: "200 OK", content_type: "text/html; charset=utf-8", body: PAGE.to_owned() },
        "/icon.svg" => Response { status: "200 OK", content_type: "image/svg+xml", body: ICON.to_owned() },
        "/metrics" => {
            Response { status: "200 OK", content_type: "text/plain; version=0.0.4; charset=utf-8", body: metrics() }
        }
        // A store that is full, or a lost quorum, is not mended by starting the process again.
        "/live" => Response::text("200 OK", "ok\n"),
        "/health" if state.is_stalled => Response::text("503 Service Unavailable", "the store has no room\n"),
        "/health" if state.is_full => Response::text(
            "503 Service Unavailable",
            format!("the store is full: {} bytes of {} are free\n", state.store_free, state.store_size),
        ),
        "/health" => Response::text("200 OK", "ok\n"),
        "/ready" if state.is_ready => Response::text("200 OK", format!("ready at index {}\n", state.applied)),
        "/ready" => Response::text("503 Service Unavailable", format!("not ready: {}\n", unready(state))),
        "/state" => everything(state, latency),
        _ => Response::text("404 Not Found", "there are /, /metrics, /live, /health, /ready and /state\n"),
    }
}

fn unready(state: &State) -> String {
    let is_member = state.members.is_empty() || state.members.iter().any(|member| member.replica == state.replica);
    match (state.leader, state.is_stalled) {
        _ if !is_member => "it is no member any more".into(),
        (_, true) => "the store has no room".into(),
        (0, _) => "no leader is known".into(),
        _ if state.is_outdated => "its program is older than the leader's".into(),
        _ if state.applied >= state.committed => "it does not know its users yet".into(),
        _ => format!("it has applied {} of {}", state.applied, state.committed),
    }
}

fn everything(state: &State, latency: &Histogram) -> Response {
    let latency = Latency {
        bounds_us: (0..BUCKETS - 1).map(bound_us).collect(),
        intervals: latency.intervals(),
        interval_s: INTERVAL_S,
        now_s: state.uptime_s,
    };
    match serde_json::to_string(&Everything { state, latency }) {
        Ok(body) => Response { status: "200 OK", content_type: "application/json", body },
        Err(error) => Response::text("500 Internal Server Error", format!("{error}\n")),
    }
}
