//! Requests, the policy that checks them, outcomes, and the JSON form of each.

pub(crate) mod interrupt;
pub(crate) mod json;
pub(crate) mod outcome;
pub(crate) mod policy;
pub(crate) mod refusal;
pub(crate) mod request;
pub(crate) mod setters;
pub(crate) mod tenant;
pub(crate) mod tool;
pub(crate) mod watch;
