//! Receipts: which code, with which inputs, in which image, did what; and signatures under them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;
use belljar::{Content, ImageIdentity, Outcome, Request, RunRequest};
use ed25519_compact::{KeyPair, PublicKey, Signature};
use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::exit::{Usage, chain};
use super::source;

/// The version of a receipt's shape.
const VERSION: u32 = 1;
/// The largest receipt that is read, in bytes: it holds the run's input files.
const MAX_RECEIPT: u64 = 1 << 30;
/// What a signature is under, before the receipt: so that it is one of a receipt and of nothing else.
const SIGNED: &[u8] = b"belljar receipt\n";

/// What a repeatable run did. Who has the image can do it again and compare.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Receipt {
    /// The version of this shape: 1.
    pub(super) receipt: u32,
    /// The version of belljar that wrote it.
    pub(super) belljar: String,
    /// The image that the run started from.
    pub(super) image: ImageEntry,
    /// The run: code, inputs, limits and seed, as `belljar schema request` describes them.
    pub(super) request: RunRequest,
    /// What came of it.
    pub(super) outcome: OutcomeEntry,
    /// A signature under all of the above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) signature: Option<SignatureEntry>,
}

/// An image, by what is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ImageEntry {
    /// Its name.
    pub(super) name: String,
    /// SHA-256 of its memory.
    pub(super) memory: String,
    /// SHA-256 of the module of Python that it was made from.
    pub(super) artifact: String,
}

/// The hashes of an outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OutcomeEntry {
    /// SHA-256 of the outcome's JSON.
    pub(super) sha256: String,
    /// SHA-256 of the JSON of each of its keys, to tell what differs.
    pub(super) parts: BTreeMap<String, String>,
}

/// A signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SignatureEntry {
    /// `ed25519`.
    pub(super) algorithm: String,
    /// The public key, 32 bytes in hexadecimal.
    pub(super) key: String,
    /// The signature, 64 bytes in hexadecimal.
    pub(super) signature: String,
}

/// How it is with the signature of a receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Signed {
    /// There is none.
    Not,
    /// By who has the private key to this public one.
    By(String),
}

/// A run for which there is to be a receipt.
pub(super) struct Draft {
    request: RunRequest,
    image: ImageEntry,
}

impl Draft {
    /// Notes a request that is complete, and names its image.
    pub(super) fn of(request: &Request, image: ImageIdentity) -> anyhow::Result<Self> {
        if request.deterministic.is_none() {
            return Err(Usage::new("a receipt is for a run that can be repeated")
                .hint("give --deterministic or --deterministic=SEED as well")
                .into());
        }
        let repeated = RunRequest::of(request).map_err(belljar::Error::from)?;
        Ok(Self {
            request: repeated,
            image: image.into(),
        })
    }

    /// The receipt for what came of it.
    pub(super) fn receipt(self, outcome: &Outcome) -> anyhow::Result<Receipt> {
        Ok(Receipt {
            receipt: VERSION,
            belljar: env!("CARGO_PKG_VERSION").into(),
            image: self.image,
            request: self.request,
            outcome: OutcomeEntry::of(outcome)?,
            signature: None,
        })
    }
}

/// Has the files of a request in it, and its outcome say what is in those that it makes.
pub(super) fn complete(request: &mut Request) -> Result<(), Usage> {
    for file in &mut request.files {
        if let Content::Host(path) = &file.content {
            file.content = Content::Bytes(source::read(path)?);
        }
    }
    request.capture.file_hashes = true;
    Ok(())
}

impl From<ImageIdentity> for ImageEntry {
    fn from(image: ImageIdentity) -> Self {
        Self {
            name: image.name,
            memory: image.memory,
            artifact: image.artifact,
        }
    }
}

impl OutcomeEntry {
    pub(super) fn of(outcome: &Outcome) -> anyhow::Result<Self> {
        let json = serde_json::to_value(outcome).context("cannot write the outcome")?;
        let parts = json.as_object().into_iter().flatten();
        Ok(Self {
            sha256: sha256(json.to_string().as_bytes()),
            parts: parts
                .map(|(key, part)| (key.clone(), sha256(part.to_string().as_bytes())))
                .collect(),
        })
    }

    /// The keys whose values are others, or that only one of the two has.
    pub(super) fn differing<'a>(&'a self, other: &'a Self) -> Vec<&'a str> {
        let keys = self.parts.keys().chain(other.parts.keys());
        let mut keys: Vec<&str> = keys
            .filter(|key| self.parts.get(*key) != other.parts.get(*key))
            .map(String::as_str)
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

impl Receipt {
    /// The JSON Schema of a receipt. `docs/schema/receipt.schema.json` holds it.
    pub(super) fn schema() -> Schema {
        let mut schema = schema_for!(Self);
        schema.insert("title".into(), format!("belljar receipt, version {VERSION}").into());
        schema
    }

    /// Reads one that anybody may have written.
    pub(super) fn read(path: &Path) -> Result<Self, Usage> {
        let name = path.display();
        let bytes = match fs::metadata(path) {
            Ok(metadata) if metadata.len() > MAX_RECEIPT => {
                return Err(Usage::new(format!("{name} is no receipt: it is too large")));
            }
            _ => source::read(path)?,
        };
        let wrong = |why: String| {
            Usage::new(format!("{name} is no receipt: {why}"))
                .hint("name a file that belljar run --receipt has written")
        };
        let json: serde_json::Value =
            serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        match json.get("receipt").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => {}
            Some(version) => {
                let text =
                    format!("{name} is a receipt of version {version}, and this reads {VERSION}");
                return Err(Usage::new(text).hint("use the belljar that wrote it"));
            }
            None => return Err(wrong("it has no version".into())),
        }
        serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))
    }

    /// Signs it.
    pub(super) fn sign(&mut self, PrivateKey(pair): &PrivateKey) -> anyhow::Result<()> {
        let signature = pair.sk.sign(self.signed_bytes()?, None);
        self.signature = Some(SignatureEntry {
            algorithm: "ed25519".into(),
            key: hex(&pair.pk[..]),
            signature: hex(&signature[..]),
        });
        Ok(())
    }

    /// Checks the signature, if there is one.
    pub(super) fn signed(&self) -> Result<Signed, Usage> {
        let Some(entry) = &self.signature else {
            return Ok(Signed::Not);
        };
        let wrong = || {
            Usage::new("the receipt was altered: its signature does not fit")
                .hint("ask whoever signed it for another copy")
        };
        if entry.algorithm != "ed25519" {
            return Err(Usage::new(format!(
                "a signature by {:?} is not known here",
                entry.algorithm
            )));
        }
        let key = unhex(&entry.key).and_then(|bytes| PublicKey::from_slice(&bytes).ok());
        let signature =
            unhex(&entry.signature).and_then(|bytes| Signature::from_slice(&bytes).ok());
        let (key, signature) = key.zip(signature).ok_or_else(wrong)?;
        let bytes = self.signed_bytes().map_err(|_| wrong())?;
        key.verify(bytes, &signature).map_err(|_| wrong())?;
        Ok(Signed::By(entry.key.clone()))
    }

    /// What a signature is under: all but itself, in the order of the fields.
    fn signed_bytes(&self) -> anyhow::Result<Vec<u8>> {
        let unsigned = Self {
            signature: None,
            ..self.clone()
        };
        let json = serde_json::to_vec(&unsigned).context("cannot write the receipt")?;
        Ok([SIGNED, &json].concat())
    }
}

/// What receipts are signed with.
pub(super) struct PrivateKey(KeyPair);

/// The private key in a file: PKCS#8 in PEM, as OpenSSL writes it.
pub(super) fn private_key(path: &Path) -> Result<PrivateKey, Usage> {
    let pem = text(path)?;
    KeyPair::from_pem(&pem).map(PrivateKey).map_err(|_| {
        Usage::new(format!("{} is no private key for ed25519 in PEM", path.display()))
            .hint("openssl genpkey -algorithm ed25519 -out key.pem makes one")
    })
}

/// The public key in a file, in hexadecimal.
pub(super) fn public_key(path: &Path) -> Result<String, Usage> {
    let pem = text(path)?;
    let key = PublicKey::from_pem(&pem).map_err(|_| {
        Usage::new(format!("{} is no public key for ed25519 in PEM", path.display()))
            .hint("openssl pkey -in key.pem -pubout -out key.pub makes one of a private key")
    })?;
    Ok(hex(&key[..]))
}

fn text(path: &Path) -> Result<String, Usage> {
    let bytes = source::read(path)?;
    String::from_utf8(bytes).map_err(|_| Usage::new(format!("{} is not text", path.display())))
}

/// Writes a receipt to a file.
pub(super) fn write(receipt: &Receipt, path: &Path) -> anyhow::Result<()> {
    let mut json = serde_json::to_string_pretty(receipt).context("cannot write the receipt")?;
    json.push('\n');
    fs::write(path, json).map_err(|error| {
        let error = anyhow::Error::new(error).context(format!("cannot write {}", path.display()));
        Usage::new(chain(&error)).into()
    })
}

fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    digits
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Some((digit(*high)? << 4) | digit(*low)?),
            _ => None,
        })
        .collect()
}
