//! Compiles code for other machines.
#![expect(
    unsafe_code,
    reason = "Cranelift's settings are unsafe to name: one that is unsound makes unsound code"
)]

use belljar_passes::Tier;
use wasmtime::{Config, Engine};

use super::code::{CodeError, Form};
use super::{Artifact, config};
use crate::util::cause::Cause;
use crate::util::parallel::apart;
use crate::util::progress::{Progress, Stage, Step};

/// Compiles code for one kind of machine.
pub(crate) struct TargetCompiler {
    engine: Engine,
    target: String,
}

impl TargetCompiler {
    /// Compiles for a system and architecture, given by its name and its Cranelift triple, and for
    /// processors with these `features`, by their Cranelift names.
    pub(crate) fn new(
        (target, triple): (&str, &str),
        features: &[&str],
    ) -> Result<Self, CodeError> {
        let mut config = config::shared(triple.contains("windows"));
        config.target(triple).map_err(failed)?;
        enable(&mut config, features);
        Ok(Self {
            engine: Engine::new(&config).map_err(failed)?,
            target: target.to_owned(),
        })
    }

    /// Compiles `tier` of the module.
    pub(crate) fn compile(
        &self,
        artifact: &Artifact,
        form: Form,
        tier: Tier,
        progress: &dyn Progress,
    ) -> Result<Vec<u8>, CodeError> {
        let subject = format!("{} {}", tier.name(), self.target);
        let _step = Step::begin(progress, Stage::CompileBundle, &subject);
        apart(|| self.engine.precompile_module(&form.wasm_of(artifact, tier)?).map_err(failed))
    }

    /// Compiles a linked extension.
    pub(crate) fn compile_extension(&self, linked: &[u8]) -> Result<Vec<u8>, CodeError> {
        let metered = belljar_passes::on_extension(linked)?;
        apart(|| self.engine.precompile_module(&metered).map_err(failed))
    }
}

fn failed(error: wasmtime::Error) -> CodeError {
    CodeError::Compile(Cause::new(error))
}

fn enable(config: &mut Config, features: &[&str]) {
    for feature in features {
        // SAFETY: each flag names an extension of the instruction set, and only changes which
        // instructions are used. A processor without them is rejected when the code is loaded: by
        // wasmtime, and before that by the bundle's manifest.
        unsafe { config.cranelift_flag_enable(feature) };
    }
}
