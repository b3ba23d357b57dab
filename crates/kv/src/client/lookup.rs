//! The command of a request.

use bytes::Bytes;

use crate::command::{self, Command};
use crate::resp::Reply;

/// Most bytes of a request that an error repeats.
const REPEATED_BYTES_MAX: usize = 128;

/// The command of a request whose number of arguments is right, or the error reply.
pub(super) fn lookup(request: &[Bytes]) -> Result<&'static Command, Reply> {
    let Some(outer) = command::find(&request[0]) else { return Err(unknown(request)) };
    let command = match request.get(1) {
        Some(name) if command::has_inner(outer) => {
            let Some(inner) = command::find_within(outer, name) else {
                let (name, outer) = (shown(name, REPEATED_BYTES_MAX), outer.name.to_uppercase());
                return Err(Reply::error(format!("unknown subcommand '{name}'. Try {outer} HELP.")));
            };
            inner
        }
        _ => outer,
    };
    command.check(request).map_err(command::Refusal::into_reply)?;
    Ok(command)
}

/// The answer to a command within another that has more arguments than it takes.
pub(super) fn too_many(request: &[Bytes]) -> Reply {
    let name = request.get(1).map_or_else(String::new, |name| shown(name, REPEATED_BYTES_MAX));
    let outer = shown(&request[0], REPEATED_BYTES_MAX).to_uppercase();
    Reply::error(format!("unknown subcommand or wrong number of arguments for '{name}'. Try {outer} HELP."))
}

fn unknown(request: &[Bytes]) -> Reply {
    let mut arguments = String::new();
    for argument in &request[1..] {
        let left = REPEATED_BYTES_MAX.saturating_sub(arguments.len());
        if left == 0 {
            break;
        }
        arguments.push_str(&format!("'{}' ", shown(argument, left)));
    }
    let name = shown(&request[0], REPEATED_BYTES_MAX);
    Reply::error(format!("unknown command '{name}', with args beginning with: {arguments}"))
}

/// The first bytes of an argument, up to the first that is 0.
fn shown(bytes: &[u8], most: usize) -> String {
    let front = &bytes[..bytes.len().min(most)];
    let end = front.iter().position(|byte| *byte == 0).unwrap_or(front.len());
    String::from_utf8_lossy(&front[..end]).into_owned()
}
