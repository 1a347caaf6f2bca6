//! `/v1/images`: what runs start from.

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
    /// What is in it; null when it has yet to be made.
    contents: Option<Contents>,
}

/// What is in an image.
#[derive(Serialize, JsonSchema)]
struct Contents {
    /// One sentence.
    description: String,
    /// The image it was made from.
    base: Option<String>,
    /// Modules imported in it.
    imports: Vec<String>,
    /// Packages added to it, as `name==version`.
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
    let images = listed.map_err(|_| Problem::internal("the images were lost"))??;
    let image = |info: belljar::images::ImageInfo| Image {
        name: info.name,
        built_in: info.built_in,
        contents: info.contents.map(Contents::from),
    };
    Ok(Json(ImageList {
        images: images.into_iter().map(image).collect(),
    }))
}
