//! Results of NCCL, and shapes of texts.

/// The meaning of a number of `ncclResult_t`.
pub const fn result_name(code: u32) -> &'static str {
    match code {
        0 => "success",
        1 => "unhandled CUDA error",
        2 => "system error",
        3 => "internal error",
        4 => "invalid argument",
        5 => "invalid usage",
        6 => "remote error: another process failed or the network did",
        7 => "in progress",
        8 => "timeout",
        _ => "unknown error",
    }
}

/// The shape of a text: numbers, addresses and names in quotes replaced, so that texts that differ
/// only in them are equal.
pub fn shape(text: &str) -> String {
    let mut shape = String::with_capacity(text.len().min(MOST_SHAPE));
    let mut chars = text.chars().peekable();
    while let Some(next) = chars.next() {
        if shape.len() >= MOST_SHAPE {
            break;
        }
        if next == '0' && chars.peek() == Some(&'x') {
            chars.next();
            while chars.next_if(char::is_ascii_hexdigit).is_some() {}
            shape.push('#');
        } else if next.is_ascii_digit() {
            while chars
                .next_if(|it| it.is_ascii_digit() || *it == '.')
                .is_some()
            {}
            shape.push('#');
        } else {
            shape.push(next);
        }
    }
    shape
}

/// Longest shape, bytes.
const MOST_SHAPE: usize = 200;
