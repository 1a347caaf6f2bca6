//! Settings of a runtime from environment variables, for programs that ask for them.

use std::ffi::OsString;
use std::path::PathBuf;

/// Settings that apply unless the builder sets them explicitly.
#[derive(Clone, Default)]
pub(super) struct Environment {
    pub cache: Option<PathBuf>,
    pub wheel: Option<PathBuf>,
    pub bundle: Option<PathBuf>,
    pub bundle_hash: Option<String>,
}

impl Environment {
    pub(super) fn read() -> Self {
        Self::of(|name| std::env::var_os(name))
    }

    fn of(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        Self {
            cache: set("BELLJAR_CACHE").map(PathBuf::from),
            wheel: set("BELLJAR_WHEEL").map(PathBuf::from),
            bundle: set("BELLJAR_BUNDLE").map(PathBuf::from),
            // A hash that is not valid Unicode matches no bundle.
            bundle_hash: set("BELLJAR_BUNDLE_HASH").map(|hash| hash.to_string_lossy().into_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::runtime::RuntimeBuilder;

    fn builder(variables: &'static [(&str, &str)]) -> RuntimeBuilder {
        let variable = |name: &str| {
            variables.iter().find(|(other, _)| *other == name).map(|(_, value)| value.into())
        };
        RuntimeBuilder {
            environment: Environment::of(variable),
            ..RuntimeBuilder::default()
        }
    }

    #[test]
    fn settings_of_the_program_come_first() {
        const ALL: &[(&str, &str)] =
            &[("BELLJAR_CACHE", "/env/cache"), ("BELLJAR_BUNDLE", "/env/bundle")];
        let cache = |builder: &RuntimeBuilder| builder.cache_dir().unwrap();
        let bundle = |builder: &RuntimeBuilder| builder.bundle_path();
        assert_eq!(cache(&builder(ALL)), Path::new("/env/cache"));
        assert_eq!(bundle(&builder(ALL)).unwrap(), Path::new("/env/bundle"));
        assert_eq!(cache(&builder(ALL).cache("/own")), Path::new("/own"));
        assert_eq!(bundle(&builder(ALL).cache("/own")), None);
        assert_eq!(bundle(&builder(ALL).bundle("/own")).unwrap(), Path::new("/own"));
    }

    #[test]
    fn empty_variables_are_missing() {
        let builder = builder(&[("BELLJAR_CACHE", ""), ("BELLJAR_BUNDLE", "")]);
        assert_eq!((builder.cache_dir(), builder.bundle_path()), (None, None));
    }
}
