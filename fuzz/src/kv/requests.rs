//! Bytes that a client sends.

use perdura_kv::resp::{Limits, Requests};

const LIMITS: Limits = Limits { arguments_max: 20, argument_bytes_max: 300, request_bytes_max: 1000 };

/// All requests in a connection's bytes that come in parts, until an error ends it.
fn read(data: &[u8], part: usize) -> (Vec<Vec<Vec<u8>>>, bool) {
    let (mut requests, mut found) = (Requests::default(), Vec::new());
    for part in data.chunks(part.max(1)) {
        requests.input().extend_from_slice(part);
        loop {
            match requests.next(&LIMITS) {
                Ok(Some(request)) => {
                    assert!(request.len() <= LIMITS.arguments_max, "{} arguments", request.len());
                    assert!(!request.is_empty(), "a request of nothing");
                    found.push(request.iter().map(|argument| argument.to_vec()).collect());
                }
                Ok(None) => break,
                Err(_) => return (found, true),
            }
        }
    }
    (found, false)
}

/// The first byte is the length of the parts. They are the same requests however they come.
pub fn requests(data: &[u8]) {
    let Some((part, data)) = data.split_first() else { return };
    let (whole, is_wrong) = read(data, data.len());
    let (parts, parts_are_wrong) = read(data, usize::from(*part));
    assert_eq!(is_wrong, parts_are_wrong);
    assert_eq!(whole, parts);
    // Requests are taken again as they were, written in the other way.
    let mut written = Vec::new();
    for request in &whole {
        written.extend_from_slice(format!("*{}\r\n", request.len()).as_bytes());
        for argument in request {
            written.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            written.extend_from_slice(argument);
            written.extend_from_slice(b"\r\n");
        }
    }
    if whole.iter().flatten().all(|argument| argument.len() <= LIMITS.argument_bytes_max)
        && whole.iter().all(|request| request.iter().map(Vec::len).sum::<usize>() <= LIMITS.request_bytes_max)
    {
        assert_eq!(read(&written, 7), (whole, false));
    }
}
