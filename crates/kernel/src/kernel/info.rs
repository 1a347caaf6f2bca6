//! Information about the kernel.

use serde_json::{Value, json};

use crate::message::PROTOCOL;

/// The version of Python in the sandbox.
pub const PYTHON: &str = "3.15.0";

/// The reply to a `kernel_info_request`.
#[must_use]
pub fn kernel_info() -> Value {
    json!({
        "status": "ok",
        "protocol_version": PROTOCOL,
        "implementation": "belljar",
        "implementation_version": env!("CARGO_PKG_VERSION"),
        "language_info": {
            "name": "python",
            "version": PYTHON,
            "mimetype": "text/x-python",
            "file_extension": ".py",
            "pygments_lexer": "ipython3",
            "codemirror_mode": {"name": "ipython", "version": 3},
            "nbconvert_exporter": "python",
        },
        "banner": format!(
            "belljar {}: Python {PYTHON} in a sandbox, without network, processes and packages to install",
            env!("CARGO_PKG_VERSION"),
        ),
        "help_links": [],
        "debugger": false,
    })
}

/// The reply to a `comm_info_request`: comms are not supported.
#[must_use]
pub(super) fn comm_info() -> Value {
    json!({"status": "ok", "comms": {}})
}
