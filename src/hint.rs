//! Advice, which errors give apart from what they say.

/// What to do about an error, apart from what it says.
pub(crate) trait Hint {
    /// One line of advice, when there is some.
    fn hint(&self) -> Option<String>;
}
