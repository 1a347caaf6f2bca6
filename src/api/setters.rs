//! Setters of structs to which fields may be added, and which others therefore cannot write down.

/// Makes methods that set a field and return the value; `=> Some` where the field is an option.
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
