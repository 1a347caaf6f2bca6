//! `/v1/images`: the images that runs start from.

use axum::Json;
use axum::extract::State;
use axum::routing::get;
use belljar::images::ImageContents;
use schemars::JsonSchema;
use serde::Serialize;

use super::operation::Operation;
use crate::http::app::App;
use crate::http::problem::Problem;
use crate::service::owner::Owner;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new("GET", "/v1/images", get(list), "Lists the images that runs start from.")
            .answers::<ImageList>(200, "The images, the built-in ones first"),
    ]
}

#[derive(Serialize, JsonSchema)]
struct ImageList {
    images: Vec<Image>,
}

/// An image.
#[derive(Serialize, JsonSchema)]
struct Image {
    name: String,
    built_in: bool,
    /// Contents; null if the image is not built yet.
    contents: Option<Contents>,
}

/// Contents of an image.
#[derive(Serialize, JsonSchema)]
struct Contents {
    /// Description in one sentence.
    description: String,
    /// The image it is based on.
    base: Option<String>,
    /// Preimported modules.
    imports: Vec<String>,
    /// Added packages, as `name==version`.
    packages: Vec<String>,
    memory_bytes: u64,
}

impl From<ImageContents> for Contents {
    fn from(contents: ImageContents) -> Self {
        Self {
            description: contents.description,
            base: contents.base,
            imports: contents.imports,
            packages: contents.packages,
            memory_bytes: contents.memory_bytes,
        }
    }
}

async fn list(State(app): State<App>, _: Owner) -> Result<Json<ImageList>, Problem> {
    let images = app.service().runtime().images();
    let listed = tokio::task::spawn_blocking(move || images.list()).await;
    let images = listed.map_err(|_| Problem::internal("listing the images failed"))??;
    let image = |info: belljar::images::ImageInfo| Image {
        name: info.name,
        built_in: info.built_in,
        contents: info.contents.map(Contents::from),
    };
    Ok(Json(ImageList {
        images: images.into_iter().map(image).collect(),
    }))
}
