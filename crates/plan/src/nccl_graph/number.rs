//! Floating-point numbers as C's `printf` writes them.

/// Significant digits of C's `%g` without a precision.
const DIGITS: usize = 6;

/// Writes a number like `%g`: six significant digits, no trailing zeros, and an exponent of at
/// least two digits if that is shorter.
pub fn c_general(number: f64) -> String {
    let sign = if number.is_sign_negative() { "-" } else { "" };
    if number.is_nan() {
        return format!("{sign}nan");
    }
    if number.is_infinite() {
        return format!("{sign}inf");
    }
    // `d.ddddde±x`: as in C, rounding to six digits decides the exponent (999999.5 is 1e+06).
    let scientific = format!("{:.*e}", DIGITS - 1, number.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_end_matches('0');
    let digits = if digits.is_empty() { "0" } else { digits };
    let at = |position: usize| digits.split_at_checked(position).unwrap_or((digits, ""));
    match usize::try_from(exponent) {
        Ok(exponent) if exponent < DIGITS => {
            let (whole, fraction) = at(exponent + 1);
            let zeros = "0".repeat((exponent + 1).saturating_sub(whole.len()));
            let point = if fraction.is_empty() { "" } else { "." };
            format!("{sign}{whole}{zeros}{point}{fraction}")
        }
        Err(_) if exponent >= -4 => {
            let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
            format!("{sign}0.{zeros}{digits}")
        }
        _ => {
            let (whole, fraction) = at(1);
            let point = if fraction.is_empty() { "" } else { "." };
            let exponent_sign = if exponent < 0 { '-' } else { '+' };
            format!(
                "{sign}{whole}{point}{fraction}e{exponent_sign}{:02}",
                exponent.unsigned_abs()
            )
        }
    }
}
