//! Checks of arguments that a schema of the enforced subset cannot express.

use protocol::tool::ToolFailure;

/// Largest integer that a JSON number holds exactly everywhere.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// A number that must be a positive integer.
///
/// # Errors
/// A plain failure that names the argument.
pub fn positive_integer(name: &str, value: f64) -> Result<u64, ToolFailure> {
    as_positive_integer(value)
        .ok_or_else(|| ToolFailure::plain(format!("{name} must be a positive integer, not {value}")))
}

/// The number as a positive integer; `None` when it is none.
pub fn as_positive_integer(value: f64) -> Option<u64> {
    let fits = (1.0..=MAX_SAFE_INTEGER).contains(&value) && value.fract() == 0.0;
    fits.then_some(value as u64)
}

/// A text that must not be blank.
///
/// # Errors
/// A plain failure that names the argument.
pub fn not_blank(name: &str, value: &str) -> Result<(), ToolFailure> {
    if value.trim().is_empty() {
        return Err(ToolFailure::plain(format!("{name} must not be blank")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_positive_integers_pass() {
        for bad in [0.0, -1.0, 1.5, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(as_positive_integer(bad), None, "{bad}");
        }
        assert_eq!(as_positive_integer(1.0), Some(1));
        assert_eq!(
            positive_integer("limit", 1.5).unwrap_err(),
            ToolFailure::plain("limit must be a positive integer, not 1.5")
        );
    }

    #[test]
    fn white_space_is_blank() {
        assert!(not_blank("path", " \t\n").is_err());
        assert!(not_blank("path", " a").is_ok());
    }
}
