//! Compiles code for other machines.
#![expect(
    unsafe_code,
    reason = "Cranelift's settings are unsafe to name: one that is unsound makes unsound code"
)]

use belljar_passes::Tier;
use wasmtime::{Config, Engine};

use super::code::{CodeError, wasm_of};
use super::{Artifact, config};
use crate::util::cause::Cause;
use crate::util::parallel::apart;
use crate::util::progress::{Progress, Stage, Step};

/// Compiles `tier` of the module for a system and architecture, given by its name and its Cranelift
/// triple, and for processors with these `features`, by their Cranelift names.
pub(crate) fn compile_for(
    artifact: &Artifact,
    tier: Tier,
    (target, triple): (&str, &str),
    features: &[&str],
    progress: &dyn Progress,
) -> Result<Vec<u8>, CodeError> {
    let failed = |e| CodeError::Compile(Cause::new(e));
    let mut config = config::shared(triple.contains("windows"));
    config.target(triple).map_err(failed)?;
    enable(&mut config, features);
    let engine = Engine::new(&config).map_err(failed)?;
    let _step = Step::begin(progress, Stage::CompileBundle, &format!("{} {target}", tier.name()));
    apart(|| {
        let code = belljar_passes::on_code(wasm_of(artifact, tier)?)?;
        engine.precompile_module(&code).map_err(failed)
    })
}

fn enable(config: &mut Config, features: &[&str]) {
    for feature in features {
        // SAFETY: each flag names an extension of the instruction set, and only changes which
        // instructions are used. A processor without them is rejected when the code is loaded: by
        // wasmtime, and before that by the bundle's manifest.
        unsafe { config.cranelift_flag_enable(feature) };
    }
}
