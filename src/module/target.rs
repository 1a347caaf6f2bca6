//! Code for other processors than this machine's.
#![expect(
    unsafe_code,
    reason = "Cranelift's settings are unsafe to name: one that is unsound makes unsound code"
)]

use wasmtime::{Config, Engine};

use super::code::{CodeError, split_artifact};
use super::{Artifact, config, passes};
use crate::cause::Cause;
use crate::parallel::on_all_cores;
use crate::progress::{Progress, Stage, Step};

/// Compiles the module for the system and architecture `triple`, and processors that have these
/// `features`, by their names in Cranelift.
pub(crate) fn compile_for(
    artifact: &Artifact,
    triple: &str,
    features: &[&str],
    progress: &dyn Progress,
) -> Result<Vec<u8>, CodeError> {
    let failed = |e| CodeError::Compile(Cause::new(e));
    let mut config = config::shared();
    config.target(triple).map_err(failed)?;
    enable(&mut config, features);
    let engine = Engine::new(&config).map_err(failed)?;
    let _step = Step::begin(progress, Stage::Compile, "");
    let code = passes::on_code(split_artifact(artifact)?.code)?;
    on_all_cores(|| engine.precompile_module(&code)).map_err(failed)
}

fn enable(config: &mut Config, features: &[&str]) {
    for feature in features {
        // SAFETY: each names an extension of the instruction set, and changes nothing but which
        // instructions are used. A processor without them is refused when the code is loaded: by
        // wasmtime, and before that by the bundle's manifest.
        unsafe { config.cranelift_flag_enable(feature) };
    }
}
