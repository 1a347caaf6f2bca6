//! Receipts: records of deterministic runs, with code, inputs, image and outcome; and signatures.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;
use belljar::images::ImageIdentity;
use belljar::request::{Content, RunRequest};
use belljar::{Outcome, Request};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use ed25519_compact::{KeyPair, PublicKey, Signature};
use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::exit::{Usage, chain};
use super::source;

/// Version of the receipt format.
const VERSION: u32 = 1;
/// Maximum size of a receipt in bytes, which includes the run's input files.
const MAX_RECEIPT: u64 = 1 << 30;
/// Prefix of the signed bytes, so that the signature is not valid for anything but a receipt.
const SIGNED: &[u8] = b"belljar receipt\n";

/// The record of a deterministic run. Anyone with the image can repeat the run and compare.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Receipt {
    /// The version of this format: 1.
    pub(super) receipt: u32,
    /// The version of belljar that wrote it.
    pub(super) belljar: String,
    /// The image that the run started from.
    pub(super) image: ImageEntry,
    /// The run: code, inputs, limits and seed, as `belljar schema request` describes them.
    pub(super) request: RunRequest,
    /// The hashes of the outcome.
    pub(super) outcome: OutcomeEntry,
    /// A signature of all fields above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) signature: Option<SignatureEntry>,
}

/// An image, identified by its contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ImageEntry {
    /// Its name.
    pub(super) name: String,
    /// SHA-256 of its memory.
    pub(super) memory: String,
    /// SHA-256 of the Python module that it was made from.
    pub(super) artifact: String,
}

/// The hashes of an outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OutcomeEntry {
    /// SHA-256 of the outcome's JSON.
    pub(super) sha256: String,
    /// SHA-256 of the JSON of each key, to find differences.
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

/// The signature status of a receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Signed {
    /// Not signed.
    Not,
    /// Signed with the private key of this public key.
    By(String),
}

/// A receipt before the run.
pub(super) struct Draft {
    request: RunRequest,
    image: ImageEntry,
}

impl Draft {
    /// Completes a request, and records its image.
    pub(super) fn of(request: &Request, image: ImageIdentity) -> anyhow::Result<Self> {
        if request.deterministic.is_none() {
            return Err(Usage::new("a receipt needs a deterministic run")
                .hint("add --deterministic or --deterministic=SEED")
                .into());
        }
        let repeated = RunRequest::of(request).map_err(belljar::Error::from)?;
        Ok(Self {
            request: repeated,
            image: image.into(),
        })
    }

    /// The receipt for an outcome.
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

/// Reads the files of a request into it, and asks for their hashes in the outcome.
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

    /// The keys with different values, or that only one of the outcomes has.
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

    /// Reads an untrusted receipt.
    pub(super) fn read(path: &Path) -> Result<Self, Usage> {
        let name = path.display();
        let bytes = match fs::metadata(path) {
            Ok(metadata) if metadata.len() > MAX_RECEIPT => {
                return Err(Usage::new(format!("{name} is not a receipt: it is too large")));
            }
            _ => source::read(path)?,
        };
        let wrong = |why: String| {
            Usage::new(format!("{name} is not a receipt: {why}"))
                .hint("name a file written by belljar run --receipt")
        };
        let json: serde_json::Value =
            serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        match json.get("receipt").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => {}
            Some(version) => {
                let text = format!(
                    "{name} is a receipt of version {version}; this belljar reads version {VERSION}"
                );
                return Err(Usage::new(text).hint("use the belljar that wrote it"));
            }
            None => return Err(wrong("it has no version".into())),
        }
        serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))
    }

    /// Signs the receipt.
    pub(super) fn sign(&mut self, PrivateKey(pair): &PrivateKey) -> anyhow::Result<()> {
        let signature = pair.sk.sign(self.signed_bytes()?, None);
        self.signature = Some(SignatureEntry {
            algorithm: "ed25519".into(),
            key: HEXLOWER.encode(&pair.pk[..]),
            signature: HEXLOWER.encode(&signature[..]),
        });
        Ok(())
    }

    /// Verifies the signature, if present.
    pub(super) fn signed(&self) -> Result<Signed, Usage> {
        let Some(entry) = &self.signature else {
            return Ok(Signed::Not);
        };
        let wrong = || {
            Usage::new("the receipt was altered: its signature is invalid")
                .hint("ask the signer for another copy")
        };
        if entry.algorithm != "ed25519" {
            return Err(Usage::new(format!(
                "the signature algorithm {:?} is unknown",
                entry.algorithm
            )));
        }
        let decode = |text: &str| HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok();
        let key = decode(&entry.key).and_then(|bytes| PublicKey::from_slice(&bytes).ok());
        let signature =
            decode(&entry.signature).and_then(|bytes| Signature::from_slice(&bytes).ok());
        let (key, signature) = key.zip(signature).ok_or_else(wrong)?;
        let bytes = self.signed_bytes().map_err(|_| wrong())?;
        key.verify(bytes, &signature).map_err(|_| wrong())?;
        Ok(Signed::By(entry.key.clone()))
    }

    /// The signed bytes: all fields but the signature, in order.
    fn signed_bytes(&self) -> anyhow::Result<Vec<u8>> {
        let unsigned = Self {
            signature: None,
            ..self.clone()
        };
        let json = serde_json::to_vec(&unsigned).context("cannot write the receipt")?;
        Ok([SIGNED, &json].concat())
    }
}

/// A key to sign receipts with.
pub(super) struct PrivateKey(KeyPair);

/// Reads a private key: PKCS#8 in PEM, as written by OpenSSL.
pub(super) fn private_key(path: &Path) -> Result<PrivateKey, Usage> {
    let pem = text(path)?;
    KeyPair::from_pem(&pem).map(PrivateKey).map_err(|_| {
        Usage::new(format!("{} is not an ed25519 private key in PEM", path.display()))
            .hint("create one with openssl genpkey -algorithm ed25519 -out key.pem")
    })
}

/// Reads a public key. Returns it in hexadecimal.
pub(super) fn public_key(path: &Path) -> Result<String, Usage> {
    let pem = text(path)?;
    let key = PublicKey::from_pem(&pem).map_err(|_| {
        Usage::new(format!("{} is not an ed25519 public key in PEM", path.display())).hint(
            "extract one from a private key with openssl pkey -in key.pem -pubout -out key.pub",
        )
    })?;
    Ok(HEXLOWER.encode(&key[..]))
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
    HEXLOWER.encode(&Sha256::digest(bytes))
}
