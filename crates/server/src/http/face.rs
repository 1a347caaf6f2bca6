//! Names of interfaces, and sets of enabled interfaces.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// An interface of the server: the API of one kind of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Face {
    /// belljar's own API below `/v1`.
    V1,
    /// A page for people, at `/`, which uses `/v1`.
    Console,
    /// E2B's control plane, interpreter and files.
    E2b,
    /// The Model Context Protocol at `/mcp`.
    Mcp,
    /// A Jupyter server below `/api`.
    Jupyter,
    /// dify-sandbox.
    Dify,
    /// Piston.
    Piston,
    /// Judge0.
    Judge0,
    /// `SandboxFusion`.
    SandboxFusion,
    /// LibreChat's Code API.
    LibreChat,
    /// OpenAI's containers.
    OpenAi,
}

impl Face {
    /// All interfaces.
    pub const ALL: [Self; 11] = [
        Self::V1,
        Self::Console,
        Self::E2b,
        Self::Mcp,
        Self::Jupyter,
        Self::Dify,
        Self::Piston,
        Self::Judge0,
        Self::SandboxFusion,
        Self::LibreChat,
        Self::OpenAi,
    ];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::Console => "console",
            Self::E2b => "e2b",
            Self::Mcp => "mcp",
            Self::Jupyter => "jupyter",
            Self::Dify => "dify",
            Self::Piston => "piston",
            Self::Judge0 => "judge0",
            Self::SandboxFusion => "sandbox-fusion",
            Self::LibreChat => "librechat",
            Self::OpenAi => "openai",
        }
    }
}

/// A set of interfaces. By default `v1`, `console`, `e2b`, `mcp` and `jupyter`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faces(BTreeSet<Face>);

impl Faces {
    /// All interfaces.
    #[must_use]
    pub fn all() -> Self {
        Face::ALL.into_iter().collect()
    }

    /// Whether the set contains an interface.
    #[must_use]
    pub fn has(&self, face: Face) -> bool {
        self.0.contains(&face)
    }
}

impl Default for Faces {
    fn default() -> Self {
        [Face::V1, Face::Console, Face::E2b, Face::Mcp, Face::Jupyter].into_iter().collect()
    }
}

impl FromIterator<Face> for Faces {
    fn from_iter<I: IntoIterator<Item = Face>>(faces: I) -> Self {
        Self(faces.into_iter().collect())
    }
}

/// Unknown interface name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown interface {name:?}: use {} or all", names(&Face::ALL))]
pub struct UnknownFace {
    name: String,
}

impl FromStr for Faces {
    type Err = UnknownFace;

    /// Parses comma-separated names, or `all`.
    fn from_str(text: &str) -> Result<Self, UnknownFace> {
        let mut faces = BTreeSet::new();
        for name in text.split(',').map(str::trim) {
            if name == "all" {
                faces.extend(Face::ALL);
                continue;
            }
            let known = Face::ALL.into_iter().find(|face| face.name() == name);
            faces.insert(known.ok_or_else(|| UnknownFace { name: name.into() })?);
        }
        Ok(Self(faces))
    }
}

impl fmt::Display for Faces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&names(&self.0))
    }
}

fn names<'a>(faces: impl IntoIterator<Item = &'a Face>) -> String {
    faces.into_iter().map(|face| face.name()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_read_as_it_is_written() {
        for text in [
            "v1",
            "v1,console,e2b,mcp,jupyter",
            "dify,piston,judge0,sandbox-fusion,librechat,openai",
        ] {
            assert_eq!(text.parse::<Faces>().unwrap().to_string(), text);
        }
        assert_eq!("v1,all".parse(), Ok(Faces::all()));
        assert_eq!("v1, console,e2b,mcp,jupyter".parse(), Ok(Faces::default()));
        for wrong in ["", "v2", "v1,", "V1"] {
            assert!(wrong.parse::<Faces>().is_err(), "{wrong:?}");
        }
    }
}
