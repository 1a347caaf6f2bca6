//! Work that continues if its caller is dropped.

use tracing::Instrument;

use super::error::ServiceError;

/// Runs work on a task. Dropped half way with its request, it would leak objects.
pub(crate) async fn alone<T, E>(
    work: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<ServiceError> + Send + 'static,
{
    match tokio::spawn(work.in_current_span()).await {
        Ok(done) => done,
        Err(lost) => match lost.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(ServiceError::Stopping.into()),
        },
    }
}
