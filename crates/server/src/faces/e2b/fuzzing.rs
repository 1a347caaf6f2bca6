//! Parsers of E2B clients' input, for fuzz targets and tests.

use super::address::Address;
use super::commands::{Command, is_start};
use super::control;
use super::envelope::first_message;
use super::paths::{Place, place};
use super::wire::{Execute, NewContext, NewSandbox};

/// Parses the bytes as the format that the first byte selects, and returns whether they are valid.
pub(crate) fn parse(bytes: &[u8]) -> bool {
    let Some((form, bytes)) = bytes.split_first() else {
        return false;
    };
    let text = String::from_utf8_lossy(bytes);
    match form % 6 {
        0 => first_message(bytes).is_ok_and(is_start),
        1 => Address::in_host(&text).is_some(),
        2 => match place(&text) {
            Ok(Place::Inside(inside)) => {
                let parts = inside.as_str().split('/');
                assert!(parts.into_iter().all(|part| part != ".." && part != "."), "{text}");
                assert_eq!(place(&inside.absolute()), Ok(Place::Inside(inside)));
                true
            }
            _ => false,
        },
        3 => !control::metadata(Some(&text)).is_empty(),
        4 => {
            let words: Vec<String> = text.split('\n').map(str::to_owned).collect();
            words.split_first().is_some_and(|(program, args)| Command::of(program, args).is_some())
        }
        _ => {
            serde_json::from_slice::<NewSandbox>(bytes).is_ok()
                || serde_json::from_slice::<Execute>(bytes).is_ok()
                || serde_json::from_slice::<NewContext>(bytes).is_ok()
        }
    }
}
