//! Setters for `non_exhaustive` structs, which other crates cannot construct by literal.

/// Defines methods that set a field and return the value; `=> Some` is for optional fields.
macro_rules! setters {
    ($type:ident { $($(#[$doc:meta])* $name:ident: $value:ty $(=> $wrap:path)?;)* }) => {
        impl $type {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name(mut self, $name: $value) -> Self {
                    self.$name = $($wrap)?($name);
                    self
                }
            )*
        }
    };
}

pub(crate) use setters;
